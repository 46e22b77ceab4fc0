// ProtobufMessage: the fields of one serialised message, in their order.
//
// Read from a SentencePiece model: Debian's package has no generated headers for it, and its settings and
// pieces need no more than this.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tessera {

struct ProtobufField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // of a number: its bits
  std::string_view bytes;   // of a string or a message
};

struct ProtobufMessage {
  std::vector<ProtobufField> fields;

  // Of fields that come more than once the last, as protobuf has it.
  std::uint64_t number(std::uint64_t field, std::uint64_t otherwise) const;
  std::string_view bytes(std::uint64_t field) const;  // empty if there is none
};

// None when the bytes are no message.
std::optional<ProtobufMessage> parse_protobuf(std::string_view bytes);

}  // namespace tessera
