#include "tessera/text/protobuf_message.h"

namespace tessera {
namespace {

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

}  // namespace

std::uint64_t ProtobufMessage::number(std::uint64_t field, std::uint64_t otherwise) const {
  for (const ProtobufField& f : fields) {
    if (f.number == field) otherwise = f.value;
  }
  return otherwise;
}

std::string_view ProtobufMessage::bytes(std::uint64_t field) const {
  std::string_view last;
  for (const ProtobufField& f : fields) {
    if (f.number == field) last = f.bytes;
  }
  return last;
}

std::optional<ProtobufMessage> parse_protobuf(std::string_view bytes) {
  enum Kind : std::uint64_t { varint = 0, fixed64 = 1, sized = 2, fixed32 = 5 };
  ProtobufMessage message;
  while (!bytes.empty()) {
    const std::optional<std::uint64_t> tag = take_varint(bytes);
    if (!tag) return std::nullopt;
    ProtobufField field{.number = *tag >> 3};
    const std::uint64_t kind = *tag & 7;
    std::uint64_t size = kind == fixed64 ? 8 : kind == fixed32 ? 4 : 0;
    if (kind == varint || kind == sized) {
      const std::optional<std::uint64_t> value = take_varint(bytes);
      if (!value) return std::nullopt;
      (kind == varint ? field.value : size) = *value;
    } else if (size == 0) {
      return std::nullopt;
    }
    if (size > bytes.size()) return std::nullopt;
    if (kind == sized) field.bytes = bytes.substr(0, size);
    if (kind == fixed64 || kind == fixed32) field.value = little_endian(bytes.substr(0, size));
    bytes.remove_prefix(size);
    message.fields.push_back(field);
  }
  return message;
}

}  // namespace tessera
