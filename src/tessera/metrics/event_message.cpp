#include "tessera/metrics/event_message.h"

#include <bit>

namespace tessera {
namespace {

// Field numbers of tensorboard/compat/proto: event.proto, summary.proto, tensor.proto, tensor_shape.proto.
namespace event_field {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log_field {
constexpr int kStatus = 1;
constexpr std::uint64_t kStart = 1;
}  // namespace session_log_field
namespace summary_field {
constexpr int kValue = 1;
}
namespace value_field {
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata_field {
constexpr int kPlugin = 1, kPluginName = 1, kDataClass = 4;
constexpr std::uint64_t kTensorClass = 2;
}  // namespace metadata_field
namespace tensor_field {
constexpr int kDType = 1, kShape = 2, kStrings = 8, kDim = 2, kDimSize = 1;
constexpr std::uint64_t kString = 7;
}  // namespace tensor_field

// One message, field after field: a key of field number and wire type, then the value.
class MessageWriter {
 public:
  void varint(int field, std::uint64_t value) {
    key(field, 0);
    append_varint(value);
  }
  void number(int field, double value) {
    key(field, 1);
    append_fixed(std::bit_cast<std::uint64_t>(value));
  }
  void number(int field, float value) {
    key(field, 5);
    append_fixed(std::bit_cast<std::uint32_t>(value));
  }
  void bytes(int field, std::string_view value) {
    key(field, 2);
    append_varint(value.size());
    bytes_ += value;
  }
  void message(int field, const MessageWriter& value) { bytes(field, value.bytes_); }

  const std::string& text() const { return bytes_; }

 private:
  void key(int field, unsigned wire_type) { append_varint(static_cast<unsigned>(field) << 3 | wire_type); }
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class Bits>
  void append_fixed(Bits bits) {
    for (std::size_t i = 0; i < sizeof(bits); ++i) bytes_ += static_cast<char>(bits >> 8 * i & 0xFF);
  }

  std::string bytes_;
};

MessageWriter event_at(double wall_time, std::int64_t step) {
  MessageWriter event;
  event.number(event_field::kWallTime, wall_time);
  event.varint(event_field::kStep, static_cast<std::uint64_t>(step));
  return event;
}

MessageWriter text_metadata() {
  MessageWriter plugin;
  plugin.bytes(metadata_field::kPluginName, "text");
  MessageWriter metadata;
  metadata.message(metadata_field::kPlugin, plugin);
  metadata.varint(metadata_field::kDataClass, metadata_field::kTensorClass);
  return metadata;
}

// string[1]
MessageWriter text_tensor(std::string_view text) {
  MessageWriter dim, shape, tensor;
  dim.varint(tensor_field::kDimSize, 1);
  shape.message(tensor_field::kDim, dim);
  tensor.varint(tensor_field::kDType, tensor_field::kString);
  tensor.message(tensor_field::kShape, shape);
  tensor.bytes(tensor_field::kStrings, text);
  return tensor;
}

}  // namespace

std::string version_event(double wall_time) {
  MessageWriter event;
  event.number(event_field::kWallTime, wall_time);
  event.bytes(event_field::kFileVersion, "brain.Event:2");
  return event.text();
}

std::string session_start_event(double wall_time, std::int64_t step) {
  MessageWriter session;
  session.varint(session_log_field::kStatus, session_log_field::kStart);
  MessageWriter event = event_at(wall_time, step);
  event.message(event_field::kSessionLog, session);
  return event.text();
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars) {
  MessageWriter summary;
  for (const TaggedScalar& scalar : scalars) {
    MessageWriter value;
    value.bytes(value_field::kTag, scalar.tag);
    value.number(value_field::kSimpleValue, static_cast<float>(scalar.value));
    summary.message(summary_field::kValue, value);
  }
  MessageWriter event = event_at(wall_time, step);
  event.message(event_field::kSummary, summary);
  return event.text();
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown) {
  MessageWriter value;
  value.bytes(value_field::kTag, tag);
  value.message(value_field::kTensor, text_tensor(markdown));
  value.message(value_field::kMetadata, text_metadata());
  MessageWriter summary;
  summary.message(summary_field::kValue, value);
  MessageWriter event = event_at(wall_time, step);
  event.message(event_field::kSummary, summary);
  return event.text();
}

}  // namespace tessera
