#include "tessera/data/indexed_dataset_writer.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
void write_array(AtomicFile& file, const std::vector<T>& values) {
  file.write(values.data(), values.size() * sizeof(T));
}

template <class T>
void write_value(AtomicFile& file, T value) {
  file.write(&value, sizeof value);
}

// Whether an id is the same after a way through the file.
template <class Stored>
bool holds(std::int32_t id) {
  if constexpr (std::is_floating_point_v<Stored>) {
    return static_cast<std::int64_t>(static_cast<Stored>(id)) == id;
  } else {
    return std::in_range<Stored>(id);
  }
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(std::filesystem::path prefix, TokenDType dtype,
                                           std::int64_t max_sequence_tokens)
    : prefix_(std::move(prefix)),
      dtype_(dtype),
      max_sequence_tokens_(max_sequence_tokens),
      bin_(bin_path(prefix_)),
      idx_(idx_path(prefix_)) {
  TS_ASSERT(max_sequence_tokens >= 1 && max_sequence_tokens <= std::numeric_limits<std::int32_t>::max());
  buffer_.resize(kBufferBytes);
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens) {
  add_tokens(tokens);
  end_document();
}

void IndexedDatasetWriter::add_tokens(std::span<const std::int32_t> tokens) {
  while (!tokens.empty()) {
    if (open_sequence_tokens_ == max_sequence_tokens_) end_sequence();
    const auto room = static_cast<std::size_t>(max_sequence_tokens_ - open_sequence_tokens_);
    const auto part = tokens.first(std::min(room, tokens.size()));
    append(part);
    open_sequence_tokens_ += std::ssize(part);
    tokens = tokens.subspan(part.size());
  }
}

void IndexedDatasetWriter::end_document() {
  end_sequence();
  documents_.push_back(static_cast<std::int64_t>(sizes_.size()));
}

void IndexedDatasetWriter::end_sequence() {
  sizes_.push_back(static_cast<std::int32_t>(std::exchange(open_sequence_tokens_, 0)));
}

// One pass checks and one converts, both vectorised: on many cores this serial part sets the pace.
void IndexedDatasetWriter::append(std::span<const std::int32_t> tokens) {
  with_token_type(dtype_, [&]<class Stored>(Stored) {
    const auto misfit = [](std::int32_t id) { return !holds<Stored>(id); };
    while (!tokens.empty()) {
      const auto part =
          tokens.first(std::min(tokens.size(), (kBufferBytes - buffered_bytes_) / sizeof(Stored)));
      int misfits = 0;
      for (const std::int32_t id : part) misfits += misfit(id);
      if (misfits > 0) {
        const auto found = std::find_if(part.begin(), part.end(), misfit);
        fail("{}: token {} is id {}, which does not fit {}", bin_path(prefix_).string(),
             num_tokens_ + (found - part.begin()), *found, token_dtype_name(dtype_));
      }
      std::transform(part.begin(), part.end(), reinterpret_cast<Stored*>(buffer_.data() + buffered_bytes_),
                     [](std::int32_t id) { return static_cast<Stored>(id); });
      buffered_bytes_ += part.size() * sizeof(Stored);
      num_tokens_ += std::ssize(part);
      tokens = tokens.subspan(part.size());
      if (buffered_bytes_ == kBufferBytes) flush();
    }
  });
}

void IndexedDatasetWriter::flush() {
  bin_.write(buffer_.data(), std::exchange(buffered_bytes_, 0));
}

void IndexedDatasetWriter::write_idx() {
  idx_.write(kIdxMagic, sizeof kIdxMagic);
  write_value(idx_, kIdxVersion);
  write_value(idx_, dtype_);
  write_value(idx_, static_cast<std::uint64_t>(sizes_.size()));
  write_value(idx_, static_cast<std::uint64_t>(documents_.size()));
  write_array(idx_, sizes_);
  std::vector<std::int64_t> pointers(sizes_.size());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    pointers[i] = offset;
    offset += sizes_[i] * token_bytes(dtype_);
  }
  write_array(idx_, pointers);
  write_array(idx_, documents_);
}

void IndexedDatasetWriter::finish(bool same_as_before) {
  TS_ASSERT(open_sequence_tokens_ == 0);
  flush();
  write_idx();
  bin_.flush();
  idx_.flush();
  // An .idx of an earlier build must not describe the new .bin, not even for a moment.
  if (!same_as_before) std::filesystem::remove(idx_path(prefix_));
  bin_.commit();
  idx_.commit();
  const std::filesystem::path folder = prefix_.parent_path();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace tessera
