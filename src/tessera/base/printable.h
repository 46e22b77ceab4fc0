// printable: a message as a terminal may show it, whatever bytes of a file are quoted in it.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Control characters as \x1b, but for line ends and tabs; of a text beyond 4000 bytes the beginning and the
// end.
std::string printable(std::string_view text);

}  // namespace tessera
