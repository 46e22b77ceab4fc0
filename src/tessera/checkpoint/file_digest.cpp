#include "tessera/checkpoint/file_digest.h"

#include <xxhash.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string hex_text(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct DigestStream::State {
  XXH3_state_t* hash = XXH3_createState();  // wants 64-byte alignment, which the library gives it
  std::int64_t num_bytes = 0;

  State() {
    TS_ASSERT(hash != nullptr);
    XXH3_128bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {}
DigestStream::~DigestStream() = default;

void DigestStream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
  state_->num_bytes += static_cast<std::int64_t>(bytes.size());
}

FileDigest DigestStream::finish() const {
  return {state_->num_bytes, hex_text(XXH3_128bits_digest(state_->hash))};
}

FileDigest digest_of(std::span<const std::byte> bytes) {
  return {static_cast<std::int64_t>(bytes.size()), hex_text(XXH3_128bits(bytes.data(), bytes.size()))};
}

}  // namespace tessera
