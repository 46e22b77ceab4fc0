#include "tessera/text/byte_alphabet.h"

#include <cstddef>

namespace tessera {
namespace {

constexpr int kFirstSubstitute = 0x100;
constexpr int kNumSubstitutes = 68;

constexpr bool is_spelled_as_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<int, 256> char_of_byte{};
  std::array<int, kFirstSubstitute + kNumSubstitutes> byte_of_char{};  // -1: not of the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte_of_char) byte = -1;
  int next_substitute = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = is_spelled_as_itself(byte) ? byte : next_substitute++;
    alphabet.char_of_byte[static_cast<std::size_t>(byte)] = character;
    alphabet.byte_of_char[static_cast<std::size_t>(character)] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::array<unsigned char, 256> bytes_in_alphabet_order() {
  std::array<unsigned char, 256> bytes{};
  std::size_t count = 0;
  for (const int byte : kAlphabet.byte_of_char) {
    if (byte >= 0) bytes[count++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    const int character = kAlphabet.char_of_byte[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      spelling += static_cast<char>(character);
    } else {  // all of the alphabet is below U+0800: two bytes of UTF-8
      spelling += static_cast<char>(0xc0 | character >> 6);
      spelling += static_cast<char>(0x80 | (character & 0x3f));
    }
  }
  return spelling;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (std::size_t at = 0; at < spelling.size(); ++at) {
    auto character = static_cast<std::size_t>(static_cast<unsigned char>(spelling[at]));
    if (character >= 0x80) {
      const auto next = static_cast<unsigned char>(at + 1 < spelling.size() ? spelling[at + 1] : '\0');
      if (character < 0xc2 || character > 0xdf || (next & 0xc0) != 0x80) return std::nullopt;
      character = (character & 0x1f) << 6 | (next & 0x3f);
      ++at;
    }
    if (character >= kAlphabet.byte_of_char.size() || kAlphabet.byte_of_char[character] < 0)
      return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of_char[character]);
  }
  return bytes;
}

}  // namespace tessera
