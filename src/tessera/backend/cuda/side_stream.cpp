#include "tessera/backend/cuda/side_stream.h"

#include <vector>

namespace tessera::cuda {
namespace {

std::vector<ByteRange> ranges(std::span<const TensorView> views, std::span<const std::byte> more = {}) {
  std::vector<ByteRange> all;
  for (const TensorView& view : views) all.push_back(byte_range(view));
  if (!more.empty()) all.push_back(byte_range(more));
  return all;
}

}  // namespace

void SideStream::begin() {
  begun_.record(main_);
  begun_.hold(side_.get());
}

void SideStream::end(std::span<const TensorView> reads, std::span<const TensorView> writes,
                     std::span<const std::byte> scratch) {
  ended(in_flight_.start(ranges(reads), ranges(writes, scratch))).record(side_.get());
}

void SideStream::before(const KernelCall& call) {
  if (!in_flight_.empty()) before(ranges(call.inputs), ranges(call.outputs, call.workspace));
}

void SideStream::before(std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
  wait_for(in_flight_.wait_before(reads, writes));
}

void SideStream::before_all() {
  wait_for(in_flight_.wait_for_all());
}

void SideStream::wait_for(std::int64_t number) {
  if (number >= 0) ended(number).hold(main_);
}

}  // namespace tessera::cuda
