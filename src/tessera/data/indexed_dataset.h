// IndexedDataset: a tokenized corpus on disk in Megatron's mmap format, PREFIX.bin + PREFIX.idx.
//
// Made by IndexedDatasetWriter, or by Megatron's and NeMo's own tools; read by TokenBatches. Both files
// stay mapped. The constructor checks the whole .idx against itself and against the size of the .bin, so
// that a reader holding one can only meet a token out of range. All methods are const and may be called
// from many threads.
//
// .bin: the tokens of all sequences one after another, no header. .idx, little-endian and unaligned:
//   offset   0: 9 bytes "MMIDIDX\0\0", u64 version 1, u8 dtype code, u64 N sequences, u64 D
//   offset  34: i32 sizes[N]           tokens of each sequence
//          ...: i64 pointers[N]        byte of the .bin where each sequence starts
//          ...: i64 documents[D]       sequence where each document starts; the last one is N
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tessera/base/mapped_file.h"
#include "tessera/data/token_dtype.h"

namespace tessera {

inline constexpr std::int64_t kIdxHeaderBytes = 34;
inline constexpr char kIdxMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
inline constexpr std::uint64_t kIdxVersion = 1;

// "data/wiki" -> "data/wiki.bin"; a dot in the prefix is part of its name.
std::filesystem::path bin_path(const std::filesystem::path& prefix);
std::filesystem::path idx_path(const std::filesystem::path& prefix);

class IndexedDataset {
 public:
  explicit IndexedDataset(const std::filesystem::path& prefix);  // throws Error naming the file

  TokenDType dtype() const { return dtype_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_sequences() const { return num_sequences_; }
  std::int64_t num_documents() const { return num_document_bounds_ - 1; }
  const std::filesystem::path& bin_file() const { return bin_.path(); }

  std::int64_t sequence_tokens(std::int64_t sequence) const;  // how many tokens it has
  std::int64_t sequence_start(std::int64_t sequence) const;   // its first token in the concatenated stream
  std::int64_t document_start(std::int64_t document) const;   // its first sequence; N for document == D - 1
  std::vector<std::int32_t> sequence(std::int64_t sequence) const;

  // Copies tokens [first_token, first_token + out.size()) of the concatenated stream. Throws Error when
  // an int64 or float is not an id.
  void copy_tokens(std::int64_t first_token, std::span<std::int32_t> out) const;

 private:
  void read_header();
  bool has_eight_byte_tokens() const;
  void check_sequences() const;
  void check_documents() const;

  MappedFile idx_;
  MappedFile bin_;
  TokenDType dtype_ = TokenDType::u16;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_document_bounds_ = 0;
};

}  // namespace tessera
