// failure_message: what the user reads when a rank's program throws. Used by those who run ranks.
#pragma once

#include <exception>
#include <string>

namespace tessera {

// "rank N: <the exception's message>".
std::string failure_message(int rank, const std::exception_ptr& cause);

}  // namespace tessera
