#include "tessera/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace tessera {

std::string errno_text(int code) {
  return std::generic_category().message(code);
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "tessera: internal error at %s:%d: %s does not hold. Please report this.\n", file,
               line, expression);
  std::abort();
}

}  // namespace tessera
