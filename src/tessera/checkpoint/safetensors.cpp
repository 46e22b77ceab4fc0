#include "tessera/checkpoint/safetensors.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/checkpoint/safetensors_header.h"

namespace tessera {
namespace {

// Hashed and then written while it is still in the core's cache: the digest costs no second pass over
// memory.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

struct PlacedTensor {
  SafetensorsEntry entry;
  const NamedTensor* source = nullptr;
};

std::vector<PlacedTensor> place_tensors(std::span<const NamedTensor> tensors, const std::string& file_name) {
  std::set<std::string_view> names;
  std::vector<PlacedTensor> placed;
  for (const NamedTensor& source : tensors) {
    const auto& [name, tensor, make] = source;
    TS_CHECK(names.insert(name).second, "{}: asked to write tensor \"{}\" twice", file_name, name);
    TS_ASSERT(!make || tensor.dtype == DType::f32);
    placed.push_back({{name, stored_dtype_of(tensor.dtype), tensor.shape, 0, tensor.num_bytes()}, &source});
  }
  std::ranges::sort(placed, [](const PlacedTensor& a, const PlacedTensor& b) {
    return std::tie(b.entry.dtype, a.entry.name) < std::tie(a.entry.dtype, b.entry.name);
  });
  std::int64_t offset = 0;
  for (auto& [entry, source] : placed) {
    entry.begin = offset;
    entry.end += offset;
    offset = entry.end;
  }
  return placed;
}

void write_in_chunks(AtomicFile& file, DigestStream& digest, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), kChunkBytes));
    digest.update(chunk);
    file.write(chunk.data(), chunk.size());
    bytes = bytes.subspan(chunk.size());
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : SafetensorsReader(MappedFile(path)) {}

SafetensorsReader::SafetensorsReader(MappedFile file) : file_(std::move(file)) {
  SafetensorsHeader header = parse_safetensors_header(file_.bytes(), path().string());
  metadata_ = std::move(header.metadata);
  const auto data = file_.bytes().subspan(static_cast<std::size_t>(header.header_bytes));
  for (const SafetensorsEntry& entry : header.entries) {
    names_.push_back(entry.name);
    const auto bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                    static_cast<std::size_t>(entry.end - entry.begin));
    tensors_.emplace(entry.name, StoredTensor{entry.dtype, entry.shape, bytes});
  }
}

const StoredTensor& SafetensorsReader::info(std::string_view name) const {
  const auto found = tensors_.find(name);
  TS_CHECK(found != tensors_.end(), "{}: expected a tensor \"{}\", found {} tensors, none of this name{}",
           path().string(), name, names_.size(),
           names_.empty() ? "" : fmt::format(", the first is \"{}\"", names_.front()));
  return found->second;
}

void SafetensorsReader::check(std::string_view name, DType dtype, const Shape& shape) const {
  const StoredTensor& stored = info(name);
  TS_CHECK(stored.shape == shape && can_convert(stored.dtype, dtype),
           "{}: tensor \"{}\": found {} {}, expected {} {}", path().string(), name,
           stored_dtype_name(stored.dtype), stored.shape.text(), dtype_name(dtype), shape.text());
}

void SafetensorsReader::read(std::string_view name, TensorView destination) const {
  check(name, destination.dtype, destination.shape);
  const StoredTensor& stored = info(name);
  const auto misfit = convert_elements(stored.bytes, stored.dtype, destination);
  TS_CHECK(!misfit, "{}: tensor \"{}\": found the value {}, expected values that fit {}", path().string(),
           name, *misfit, dtype_name(destination.dtype));
}

FileDigest write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata) {
  const std::vector<PlacedTensor> placed = place_tensors(tensors, path.string());
  std::vector<SafetensorsEntry> entries;
  for (const PlacedTensor& tensor : placed) entries.push_back(tensor.entry);

  const std::string header = format_safetensors_header(entries, metadata, path.string());
  AtomicFile file(path);
  DigestStream digest;
  write_in_chunks(file, digest, std::as_bytes(std::span(header)));
  for (const auto& [entry, source] : placed) {
    const auto num_bytes = static_cast<std::size_t>(entry.end - entry.begin);
    std::vector<float> made;
    if (source->make) made = source->make();
    TS_ASSERT(!source->make || made.size() * sizeof(float) == num_bytes);
    const void* const data = source->make ? made.data() : source->tensor.data;
    write_in_chunks(file, digest, {static_cast<const std::byte*>(data), num_bytes});
  }
  file.commit();
  return digest.finish();
}

void make_tensors(std::span<const NamedTensor> tensors) {
  for (const PlacedTensor& tensor : place_tensors(tensors, "")) {
    if (tensor.source->make) tensor.source->make();
  }
}

}  // namespace tessera
