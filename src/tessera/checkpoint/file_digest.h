// FileDigest: the size and XXH3-128 hash of a file, by which a checkpoint knows its own bytes again.
//
// XXH3 guards against bit rot and truncation, not against an adversary; it runs at memory speed, so a
// save pays nothing next to the disk. The text is what `xxh128sum` prints for the same file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

struct FileDigest {
  std::int64_t num_bytes = 0;
  std::string xxh3_128;  // 32 hex digits

  bool operator==(const FileDigest&) const = default;
};

FileDigest digest_of(std::span<const std::byte> bytes);

// The digest of bytes that come piece by piece.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  void update(std::span<const std::byte> bytes);
  FileDigest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
