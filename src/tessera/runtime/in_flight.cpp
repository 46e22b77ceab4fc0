#include "tessera/runtime/in_flight.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

bool overlap(std::span<const ByteRange> some, std::span<const ByteRange> others) {
  return std::ranges::any_of(some, [&](const ByteRange& a) {
    return std::ranges::any_of(
        others, [&](const ByteRange& b) { return std::max(a.begin, b.begin) < std::min(a.end, b.end); });
  });
}

}  // namespace

std::vector<ByteRange> byte_ranges(std::span<const TensorView> views, std::span<const std::byte> more) {
  std::vector<ByteRange> all;
  for (const TensorView& view : views) all.push_back(byte_range(view));
  if (!more.empty()) all.push_back(byte_range(more));
  return all;
}

std::int64_t InFlight::start(std::vector<ByteRange> reads, std::vector<ByteRange> writes) {
  pieces_.push_back({std::move(reads), std::move(writes)});
  return first_ + std::ssize(pieces_) - 1;
}

std::int64_t InFlight::wait_before(std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
  for (std::size_t i = pieces_.size(); i-- > 0;) {
    const Piece& piece = pieces_[i];
    if (overlap(reads, piece.writes) || overlap(writes, piece.writes) || overlap(writes, piece.reads)) {
      return forget_up_to(first_ + static_cast<std::int64_t>(i));
    }
  }
  return -1;
}

std::int64_t InFlight::wait_for_all() {
  return pieces_.empty() ? -1 : forget_up_to(first_ + std::ssize(pieces_) - 1);
}

std::int64_t InFlight::forget_up_to(std::int64_t number) {
  for (; first_ <= number; ++first_) pieces_.pop_front();
  return number;
}

}  // namespace tessera
