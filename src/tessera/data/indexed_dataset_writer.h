// IndexedDatasetWriter: writes PREFIX.bin and PREFIX.idx (indexed_dataset.h) document by document.
//
// Used by build_corpus. Tokens stream to disk; only the sizes and document bounds (12 bytes a document)
// stay in memory. Both files appear whole in finish(), the .bin first: an .idx never stands beside a .bin
// that is not complete. Without finish(), or where it finds the disk full, what was there before stays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/data/token_dtype.h"

namespace tessera {

class IndexedDatasetWriter {
 public:
  // A sequence's size is an int32 on disk, so a longer document becomes several sequences of one document.
  // max_sequence_tokens is lowered only by tests.
  IndexedDatasetWriter(std::filesystem::path prefix, TokenDType dtype,
                       std::int64_t max_sequence_tokens = std::numeric_limits<std::int32_t>::max());

  // Throws Error when an id does not fit the dtype.
  void add_document(std::span<const std::int32_t> tokens);
  // The same in parts: add_tokens as often as needed, then end_document once.
  void add_tokens(std::span<const std::int32_t> tokens);
  void end_document();

  // `same_as_before`: whoever has written this prefix before, or does so now, has written the same bytes.
  // Then what is there stays until it is replaced, for somebody may be about to open it.
  void finish(bool same_as_before = false);

  // Of two at once the .bin of one could end beside the .idx of the other.
  bool is_only_writer() const { return bin_.is_only_writer() && idx_.is_only_writer(); }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(documents_.size()) - 1; }

 private:
  void end_sequence();
  void append(std::span<const std::int32_t> tokens);
  void flush();
  void write_idx();

  std::filesystem::path prefix_;
  TokenDType dtype_;
  std::int64_t max_sequence_tokens_;
  AtomicFile bin_;
  AtomicFile idx_;                 // opened at once: an unwritable folder is told before the work is done
  std::vector<std::byte> buffer_;  // tokens in the stored type, not yet given to bin_
  std::size_t buffered_bytes_ = 0;
  std::vector<std::int32_t> sizes_;  // of the closed sequences
  std::vector<std::int64_t> documents_{0};
  std::int64_t open_sequence_tokens_ = 0;
  std::int64_t num_tokens_ = 0;
};

}  // namespace tessera
