// InFlight: which memory the pieces of work that a device runs beside its main work, one after the other,
// read and write, so that the main work waits for exactly those it needs. A device with a stream of its own
// for collectives keeps one, and the Executor cuts programs by one.
//
// By addresses, not by nodes of a plan: what the arena gives to another value while a collective still reads
// it, what another executor reads, what the host uploads or downloads are all found by the one rule.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "tessera/base/tensor_view.h"

namespace tessera {

struct ByteRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

inline ByteRange byte_range(const TensorView& view) {
  const auto* const begin = static_cast<const std::byte*>(view.data);
  return {begin, begin + view.num_bytes()};
}
inline ByteRange byte_range(std::span<const std::byte> bytes) {
  return {bytes.data(), bytes.data() + bytes.size()};
}
std::vector<ByteRange> byte_ranges(std::span<const TensorView> views, std::span<const std::byte> more = {});

class InFlight {
 public:
  // Numbers count from 0; a piece ends after those with lower numbers.
  std::int64_t start(std::vector<ByteRange> reads, std::vector<ByteRange> writes);

  // The last piece that must end before work that reads and writes these may begin, or -1. It and those
  // before it are forgotten: the caller waits for it.
  std::int64_t wait_before(std::span<const ByteRange> reads, std::span<const ByteRange> writes);
  std::int64_t wait_for_all();

  bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    std::vector<ByteRange> reads, writes;
  };
  std::int64_t forget_up_to(std::int64_t number);

  std::deque<Piece> pieces_;
  std::int64_t first_ = 0;  // the number of pieces_[0]
};

}  // namespace tessera
