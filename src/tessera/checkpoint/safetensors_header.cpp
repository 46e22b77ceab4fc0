#include "tessera/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadataKey = "__metadata__";

// Two tensors of one name are a broken file.
Json parse_json_object(std::string_view text, const std::string& file_name) {
  std::set<std::string> names;
  const auto refuse_duplicates = [&](int depth, const std::string& name) {
    TS_CHECK(depth > 1 || names.insert(name).second, "{}: the header names tensor \"{}\" twice", file_name,
             name);
  };
  Json header;
  try {
    header = parse_json(text, refuse_duplicates);
  } catch (const Json::exception& error) {
    fail("{}: the header is not JSON: {}", file_name, error.what());
  }
  TS_CHECK(header.is_object(), "{}: the header is a JSON {}, expected an object", file_name,
           header.type_name());
  return header;
}

std::int64_t parse_int64(const Json& value, const std::string& where) {
  TS_CHECK(value.is_number_unsigned() && std::in_range<std::int64_t>(value.get<std::uint64_t>()),
           "{}: found {}, expected an integer from 0 to 2^63-1", where, value.dump());
  return value.get<std::int64_t>();
}

const Json& require_field(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  TS_CHECK(found != object.end(), "{}: no \"{}\"; expected dtype, shape and data_offsets", where, key);
  return *found;
}

Shape parse_shape(const Json& dims, const std::string& where) {
  TS_CHECK(dims.is_array(), "{}: shape is {}, expected a list of sizes", where, dims.dump());
  TS_CHECK(dims.size() <= Shape::kMaxDims, "{}: shape {} has {} dims, expected at most {}", where,
           dims.dump(), dims.size(), Shape::kMaxDims);
  Shape shape;
  for (const Json& dim : dims) shape.push_back(parse_int64(dim, where + ": shape"));
  return shape;
}

// The bytes a tensor needs, or nothing when 64 bits do not hold their number.
std::optional<std::int64_t> tensor_bytes(StoredDType dtype, const Shape& shape) {
  std::int64_t num_bytes = stored_dtype_bytes(dtype);
  for (int i = 0; i < shape.rank(); ++i) {
    if (__builtin_mul_overflow(num_bytes, shape[i], &num_bytes)) return std::nullopt;
  }
  return num_bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const Json& fields, const std::string& file_name) {
  const std::string where = fmt::format("{}: tensor \"{}\"", file_name, name);
  TS_CHECK(fields.is_object(), "{}: found {}, expected an object", where, fields.dump());
  SafetensorsEntry entry;
  entry.name = name;

  const Json& dtype_text = require_field(fields, "dtype", where);
  const auto dtype = dtype_text.is_string() ? find_stored_dtype(dtype_text.get_ref<const std::string&>())
                                            : std::optional<StoredDType>();
  TS_CHECK(dtype, "{}: unknown dtype {}, expected one such as \"F32\" or \"BF16\"", where, dtype_text.dump());
  entry.dtype = *dtype;
  entry.shape = parse_shape(require_field(fields, "shape", where), where);

  const Json& offsets = require_field(fields, "data_offsets", where);
  TS_CHECK(offsets.is_array() && offsets.size() == 2, "{}: data_offsets is {}, expected [begin,end]", where,
           offsets.dump());
  entry.begin = parse_int64(offsets[0], where + ": data_offsets");
  entry.end = parse_int64(offsets[1], where + ": data_offsets");
  TS_CHECK(entry.begin <= entry.end, "{}: data_offsets {} end before they begin", where, offsets.dump());

  const auto num_bytes = tensor_bytes(entry.dtype, entry.shape);
  TS_CHECK(num_bytes, "{}: shape {} has more elements than any file", where, entry.shape.text());
  TS_CHECK(*num_bytes == entry.end - entry.begin, "{}: data_offsets {} hold {} bytes, expected {} for {} {}",
           where, offsets.dump(), entry.end - entry.begin, *num_bytes, stored_dtype_name(entry.dtype),
           entry.shape.text());
  return entry;
}

std::map<std::string, std::string> parse_metadata(const Json& fields, const std::string& file_name) {
  TS_CHECK(fields.is_object(), "{}: {} is {}, expected an object", file_name, kMetadataKey, fields.dump());
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : fields.items()) {
    TS_CHECK(value.is_string(), "{}: {} has \"{}\": {}, expected a string", file_name, kMetadataKey, key,
             value.dump());
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The format forbids overlaps and holes: every byte after the header belongs to exactly one tensor.
void check_coverage(std::span<const SafetensorsEntry> entries, std::int64_t data_bytes,
                    const std::string& file_name) {
  std::int64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    TS_CHECK(entry.end <= data_bytes,
             "{}: tensor \"{}\" ends at byte {} of the data, but the file holds {}; it may be cut short",
             file_name, entry.name, entry.end, data_bytes);
    TS_CHECK(entry.begin >= covered,
             "{}: tensor \"{}\" begins at byte {} and overlaps the one before, which ends at {}", file_name,
             entry.name, entry.begin, covered);
    TS_CHECK(entry.begin <= covered,
             "{}: tensor \"{}\" begins at byte {}, expected {}: the bytes between are a hole", file_name,
             entry.name, entry.begin, covered);
    covered = entry.end;
  }
  TS_CHECK(covered == data_bytes, "{}: the tensors end at byte {}, but the file holds {}: the rest is a hole",
           file_name, covered, data_bytes);
}

std::string json_text(const Json& value, const std::string& file_name) {
  try {
    return value.dump();
  } catch (const Json::exception& error) {
    fail("{}: names and metadata must be UTF-8: {}", file_name, error.what());
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
  TS_CHECK(file.size() >= kLengthBytes,
           "{}: the file has {} bytes, expected a safetensors file of at least {}", file_name, file.size(),
           kLengthBytes);
  std::uint64_t json_bytes = 0;
  std::memcpy(&json_bytes, file.data(), kLengthBytes);
  TS_CHECK(json_bytes <= file.size() - kLengthBytes,
           "{}: the header should have {} bytes, but the file has only {} after its length; it may be cut "
           "short or "
           "not be a safetensors file",
           file_name, json_bytes, file.size() - kLengthBytes);

  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, json_bytes);
  const Json json = parse_json_object(text, file_name);
  SafetensorsHeader header;
  header.header_bytes = static_cast<std::int64_t>(kLengthBytes + json_bytes);
  for (const auto& [name, fields] : json.items()) {
    if (name == kMetadataKey) {
      header.metadata = parse_metadata(fields, file_name);
    } else {
      header.entries.push_back(parse_entry(name, fields, file_name));
    }
  }
  const auto place = [](const SafetensorsEntry& e) { return std::tie(e.begin, e.end, e.name); };
  std::ranges::sort(header.entries, {}, place);
  check_coverage(header.entries, static_cast<std::int64_t>(file.size()) - header.header_bytes, file_name);
  return header;
}

std::string format_safetensors_header(std::span<const SafetensorsEntry> entries,
                                      const std::map<std::string, std::string>& metadata,
                                      const std::string& file_name) {
  std::string text(kLengthBytes, '\0');
  text += '{';
  if (!metadata.empty()) text += fmt::format("\"{}\":{}", kMetadataKey, json_text(metadata, file_name));
  for (const SafetensorsEntry& entry : entries) {
    TS_CHECK(entry.name != kMetadataKey, "{}: no tensor may be named {}", file_name, kMetadataKey);
    if (text.back() != '{') text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                        json_text(entry.name, file_name), stored_dtype_name(entry.dtype), entry.shape.text(),
                        entry.begin, entry.end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t json_bytes = text.size() - kLengthBytes;
  std::memcpy(text.data(), &json_bytes, kLengthBytes);
  return text;
}

}  // namespace tessera
