#include "tessera/metrics/tf_record.h"

#include <array>

namespace tessera {
namespace {

// The remainders of all bytes, for the polynomial with its bits reversed.
constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kCastagnoli = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t masked(std::uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

template <class Integer>
void append_little_endian(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> 8 * i & 0xFF);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(payload.size()));
  append_little_endian(record, masked(crc32c(record)));
  record += payload;
  append_little_endian(record, masked(crc32c(payload)));
  return record;
}

}  // namespace tessera
