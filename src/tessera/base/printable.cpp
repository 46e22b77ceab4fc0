#include "tessera/base/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace tessera {
namespace {

// The last place up to `at` that is not within a character of UTF-8.
std::size_t between_characters(std::string_view text, std::size_t at) {
  const auto within = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80; };
  for (int moved = 0; moved < 3 && at > 0 && within(at); ++moved) --at;
  return at;
}

void append_printable(std::string& to, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      fmt::format_to(std::back_inserter(to), "\\x{:02x}", byte);
    } else {
      to += c;
    }
  }
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 4000, kEnd = 1000;
  std::string shown;
  if (text.size() <= kMost) {
    append_printable(shown, text);
    return shown;
  }
  const std::size_t begin = between_characters(text, kMost - kEnd);
  const std::size_t end = between_characters(text, text.size() - kEnd);
  append_printable(shown, text.substr(0, begin));
  fmt::format_to(std::back_inserter(shown), " [... {} bytes more ...] ", end - begin);
  append_printable(shown, text.substr(end));
  return shown;
}

}  // namespace tessera
