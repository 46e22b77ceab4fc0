// Errors: a user's mistake throws Error with a message a person can act on; our own mistake aborts.
//
//   TS_CHECK(found == wanted, "{}: found {} heads, expected {}", file, found, wanted);   // throws Error
//   TS_ASSERT(offset % 64 == 0);  // aborts, in all builds
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tessera {

// A mistake in what was given to us: a config, a shape, a file, a missing feature.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Text of errno for messages: "No space left on device".
std::string errno_text(int code);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace tessera

#define TS_CHECK(condition, ...)                    \
  do {                                              \
    if (!(condition)) ::tessera::fail(__VA_ARGS__); \
  } while (false)

#define TS_ASSERT(condition)                                                       \
  do {                                                                             \
    if (!(condition)) ::tessera::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)
