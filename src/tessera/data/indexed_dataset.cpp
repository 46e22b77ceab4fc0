#include "tessera/data/indexed_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The arrays of the .idx start at byte 34, so nothing in them is aligned.
template <class T>
T load(std::span<const std::byte> bytes, std::int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) {
  path += suffix;
  return path;
}

void check_magic(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TS_CHECK(!text.empty(), "{}: the file is empty, expected a Megatron .idx", file);
  TS_CHECK(!text.starts_with("TNTIDX"),
           "{}: found the legacy lazy/cached format (magic TNTIDX), expected the mmap format (magic MMIDIDX)",
           file);
  const std::string_view magic(kIdxMagic, sizeof kIdxMagic);
  const std::size_t shared = std::min(text.size(), magic.size());
  TS_CHECK(text.substr(0, shared) == magic.substr(0, shared),
           "{}: not a Megatron .idx: it does not start with the bytes MMIDIDX\\0\\0", file);
  TS_CHECK(std::ssize(bytes) >= kIdxHeaderBytes, "{}: truncated: found {} bytes, the header alone has {}",
           file, bytes.size(), kIdxHeaderBytes);
}

TokenDType dtype_of_code(int code, const std::string& file) {
  TS_CHECK(
      code >= 1 && code <= 8,
      "{}: unknown dtype code {}, expected 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 float64, 7 float or "
      "8 uint16",
      file, code);
  return static_cast<TokenDType>(code);
}

// Whether a stored number is an id: whole, and in the range of int32.
template <class Stored>
bool is_id(Stored value) {
  using Limits = std::numeric_limits<std::int32_t>;
  const auto wide = static_cast<double>(value);
  if constexpr (std::is_floating_point_v<Stored>) {
    if (!(std::trunc(value) == value)) return false;
  }
  return wide >= Limits::min() && wide <= Limits::max();
}

}  // namespace

std::filesystem::path bin_path(const std::filesystem::path& prefix) {
  return with_suffix(prefix, ".bin");
}
std::filesystem::path idx_path(const std::filesystem::path& prefix) {
  return with_suffix(prefix, ".idx");
}

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : idx_(idx_path(prefix)), bin_(bin_path(prefix)) {
  read_header();
  check_sequences();
  check_documents();
  num_tokens_ = std::ssize(bin_.bytes()) / token_bytes(dtype_);
}

void IndexedDataset::read_header() {
  const std::string file = idx_.path().string();
  const auto bytes = idx_.bytes();
  check_magic(bytes, file);
  const auto version = load<std::uint64_t>(bytes, 9);
  TS_CHECK(version == kIdxVersion, "{}: version {}, expected {}", file, version, kIdxVersion);
  dtype_ = dtype_of_code(load<std::uint8_t>(bytes, 17), file);

  // Counts are bounded by the file before they are multiplied, so a foreign number cannot overflow.
  const auto num_sequences = load<std::uint64_t>(bytes, 18);
  const auto num_bounds = load<std::uint64_t>(bytes, 26);
  const auto body_bytes = static_cast<std::uint64_t>(bytes.size()) - kIdxHeaderBytes;
  const bool plausible = num_sequences <= body_bytes / 12 && num_bounds <= body_bytes / 8;
  TS_CHECK(plausible && num_sequences * 12 + num_bounds * 8 == body_bytes,
           "{}: truncated or foreign: {} sequences and {} document bounds need {} + 12 x {} + 8 x {} bytes, "
           "found {}",
           file, num_sequences, num_bounds, kIdxHeaderBytes, num_sequences, num_bounds, bytes.size());
  TS_CHECK(num_bounds >= 1, "{}: the document index is empty, expected at least the bound 0", file);
  num_sequences_ = static_cast<std::int64_t>(num_sequences);
  num_document_bounds_ = static_cast<std::int64_t>(num_bounds);
  if (dtype_ == TokenDType::f32 && has_eight_byte_tokens()) dtype_ = TokenDType::f64;
}

// Code 7 means float64 in NeMo's files; the size of the .bin tells.
bool IndexedDataset::has_eight_byte_tokens() const {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < num_sequences_; ++i) tokens += sequence_tokens(i);
  return tokens > 0 && std::ssize(bin_.bytes()) == 8 * tokens;
}

// A pointer must be the sum of the sizes before it: then the .bin is one stream without gaps, which is
// what copy_tokens relies on.
void IndexedDataset::check_sequences() const {
  const std::string file = idx_.path().string();
  const std::int64_t pointers = kIdxHeaderBytes + 4 * num_sequences_;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < num_sequences_; ++i) {
    const auto size = load<std::int32_t>(idx_.bytes(), kIdxHeaderBytes + 4 * i);
    TS_CHECK(size >= 0, "{}: sequence {} has {} tokens, expected 0 or more", file, i, size);
    const auto pointer = load<std::int64_t>(idx_.bytes(), pointers + 8 * i);
    TS_CHECK(pointer == tokens * token_bytes(dtype_),
             "{}: the pointer of sequence {} is byte {}, expected byte {}, where the sequences before it end",
             file, i, pointer, tokens * token_bytes(dtype_));
    tokens += size;
  }
  const std::int64_t expected = tokens * token_bytes(dtype_);
  const std::int64_t found = std::ssize(bin_.bytes());
  TS_CHECK(found == expected, "{}: {} {} bytes, but the sizes in {} add up to {} tokens of {} = {} bytes",
           bin_.path().string(), found < expected ? "truncated: found" : "too long: found", found, file,
           tokens, token_dtype_name(dtype_), expected);
}

void IndexedDataset::check_documents() const {
  const std::string file = idx_.path().string();
  std::int64_t previous = 0;
  for (std::int64_t d = 0; d < num_document_bounds_; ++d) {
    const std::int64_t start = document_start(d);
    TS_CHECK(d > 0 || start == 0, "{}: the document index starts with sequence {}, expected 0", file, start);
    TS_CHECK(start >= previous, "{}: document {} starts at sequence {}, before document {} at {}", file, d,
             start, d - 1, previous);
    previous = start;
  }
  TS_CHECK(previous == num_sequences_,
           "{}: the document index ends with {}, expected the number of sequences, {}", file, previous,
           num_sequences_);
}

std::int64_t IndexedDataset::sequence_tokens(std::int64_t sequence) const {
  TS_ASSERT(sequence >= 0 && sequence < num_sequences_);
  return load<std::int32_t>(idx_.bytes(), kIdxHeaderBytes + 4 * sequence);
}

std::int64_t IndexedDataset::sequence_start(std::int64_t sequence) const {
  TS_ASSERT(sequence >= 0 && sequence < num_sequences_);
  return load<std::int64_t>(idx_.bytes(), kIdxHeaderBytes + 4 * num_sequences_ + 8 * sequence) /
         token_bytes(dtype_);
}

std::int64_t IndexedDataset::document_start(std::int64_t document) const {
  TS_ASSERT(document >= 0 && document < num_document_bounds_);
  return load<std::int64_t>(idx_.bytes(), kIdxHeaderBytes + 12 * num_sequences_ + 8 * document);
}

std::vector<std::int32_t> IndexedDataset::sequence(std::int64_t sequence) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_tokens(sequence)));
  copy_tokens(sequence_start(sequence), tokens);
  return tokens;
}

void IndexedDataset::copy_tokens(std::int64_t first_token, std::span<std::int32_t> out) const {
  TS_ASSERT(first_token >= 0 && first_token <= num_tokens_ && std::ssize(out) <= num_tokens_ - first_token);
  if (out.empty()) return;
  with_token_type(dtype_, [&]<class Stored>(Stored) {
    // The mapping starts on a page and .bin has no header, so tokens are aligned.
    const Stored* from = reinterpret_cast<const Stored*>(bin_.bytes().data()) + first_token;
    if constexpr (std::is_same_v<Stored, std::int64_t> || std::is_floating_point_v<Stored>) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        TS_CHECK(is_id(from[i]), "{}: token {} is {}, which is not an id", bin_.path().string(),
                 first_token + static_cast<std::int64_t>(i), from[i]);
      }
    }
    std::transform(from, from + out.size(), out.begin(),
                   [](Stored id) { return static_cast<std::int32_t>(id); });
  });
}

}  // namespace tessera
