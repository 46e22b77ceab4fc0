// error_of: the message of the Error a call throws, or "" when it throws none. For the refusals' tests.
#pragma once

#include <string>

#include "tessera/base/error.h"

namespace tessera {

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tessera
