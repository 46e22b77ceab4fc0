#include "tessera/backend/cuda/peer_communicator.h"

#include <exception>

#include "tessera/backend/cuda/copy_rectangle.h"
#include "tessera/backend/cuda/shared_by_ranks.h"
#include "tessera/backend/cuda/sum_of_ranks.h"

namespace tessera::cuda {
namespace {

// Shares of an all_reduce begin at packs.
constexpr std::int64_t kShareElems = 16;

void copy(void* to, const void* from, std::int64_t bytes, DeviceStream stream) {
  if (bytes == 0 || to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream),
             "copy between ranks");
}

}  // namespace

PeerCommunicator::PeerCommunicator(Communicator& group)
    : DeviceCommunicator(group.rank(), group.size()),
      host_(group),
      moments_(shared_by_ranks(group, std::make_shared<Moments>())) {
  TS_ASSERT(size() <= kMostPeers);
}

void PeerCommunicator::show(std::span<const DeviceTensor> tensors) {
  shown_.clear();
  for (const DeviceTensor& tensor : tensors) shown_.push_back(tensor.data);
}

std::byte* PeerCommunicator::seen(int rank, std::size_t index, std::int64_t offset) const {
  const void* const data = all_shown_[static_cast<std::size_t>(rank) * shown_.size() + index];
  return static_cast<std::byte*>(const_cast<void*>(data)) + offset;
}

// Who has come to the first meeting comes to the second, whatever fails in between, here or elsewhere: the
// others count on this rank's memory, and it may go only when its stream has waited for them.
void PeerCommunicator::together(DeviceStream stream, const std::function<void()>& work) {
  Moments& own = *moments_[static_cast<std::size_t>(rank())];
  own.ready.record(stream);
  all_shown_.resize(shown_.size() * static_cast<std::size_t>(size()));
  const std::int64_t words = 2 * std::ssize(shown_);
  host_.all_gather(shown_.data(), all_shown_.data(), {1, words}, DType::i32);
  std::exception_ptr failure;
  const auto attempt = [&](const auto& part) {
    try {
      part();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&] {
    for (const auto& peer : moments_) peer->ready.hold(stream);
    work();
  });
  attempt([&] { own.done.record(stream); });  // also of work that was given before it failed
  const std::uint32_t call = ++own.calls;
  own.calls.notify_all();
  for (const auto& peer : moments_) {
    // Nobody is more than a call ahead, so that the difference tells, also when the numbers come round.
    for (std::uint32_t seen; static_cast<std::int32_t>((seen = peer->calls) - call) < 0;)
      peer->calls.wait(seen);
  }
  attempt([&] {
    for (const auto& peer : moments_) peer->done.hold(stream);
  });
  if (failure) std::rethrow_exception(failure);
}

// Each rank adds up its share of the elements and writes it to all.
void PeerCommunicator::all_reduce(std::span<const DeviceTensor> tensors, Reduction reduction,
                                  DeviceStream stream) {
  show(tensors);
  together(stream, [&] {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto [data, count, dtype] = tensors[t];
      const TensorRange packs = range_of((count + kShareElems - 1) / kShareElems, size(), rank());
      const std::int64_t begin = packs.begin * kShareElems;
      RankSum sum{.num_from = size(), .num_to = size()};
      sum.count = std::max<std::int64_t>(0, std::min(count - begin, packs.count * kShareElems));
      sum.inner = sum.stride = std::max<std::int64_t>(1, sum.count);
      for (int peer = 0; peer < size(); ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        sum.from[p] = sum.to[p] = seen(peer, t, begin * dtype_bytes(dtype));
      }
      sum_of_ranks(sum, dtype, reduction, stream);
    }
  });
}

void PeerCommunicator::all_gather(const void* part, void* whole, Strips strips, DType dtype,
                                  DeviceStream stream) {
  show(part);
  const auto strip = static_cast<std::size_t>(strips.inner * dtype_bytes(dtype));
  together(stream, [&] {
    for (int peer = 0; peer < size(); ++peer) {
      std::byte* const to = static_cast<std::byte*>(whole) + static_cast<std::size_t>(peer) * strip;
      if (seen(peer) == to || strip == 0) continue;
      copy_rectangle(to, seen(peer), {strip * static_cast<std::size_t>(size()), strip}, strip,
                     static_cast<std::size_t>(strips.outer), stream, "gather from the ranks");
    }
  });
}

void PeerCommunicator::reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                                      Reduction reduction, DeviceStream stream) {
  show(whole);
  together(stream, [&] {
    RankSum sum{.num_from = size(),
                .num_to = 1,
                .count = strips.outer * strips.inner,
                .inner = strips.inner,
                .stride = strips.inner * size()};
    sum.to[0] = part;
    for (int peer = 0; peer < size(); ++peer) {
      sum.from[static_cast<std::size_t>(peer)] = seen(peer, 0, rank() * strips.inner * dtype_bytes(dtype));
    }
    sum_of_ranks(sum, dtype, reduction, stream);
  });
}

void PeerCommunicator::all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) {
  show(tensors);
  together(stream, [&] {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto [data, count, dtype] = tensors[t];
      for (int peer = 0; peer < size(); ++peer) {
        const TensorRange range = range_of(count, size(), peer);
        const std::int64_t offset = range.begin * dtype_bytes(dtype);
        copy(static_cast<std::byte*>(data) + offset, seen(peer, t, offset), range.count * dtype_bytes(dtype),
             stream);
      }
    }
  });
}

void PeerCommunicator::reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                                             DeviceStream stream) {
  show(tensors);
  together(stream, [&] {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto [data, count, dtype] = tensors[t];
      const TensorRange own = range_of(count, size(), rank());
      RankSum sum{.num_from = size(), .num_to = 1, .count = own.count};
      sum.inner = sum.stride = std::max<std::int64_t>(1, own.count);
      const std::int64_t offset = own.begin * dtype_bytes(dtype);
      sum.to[0] = static_cast<std::byte*>(data) + offset;
      for (int peer = 0; peer < size(); ++peer) {
        sum.from[static_cast<std::size_t>(peer)] = seen(peer, t, offset);
      }
      sum_of_ranks(sum, dtype, reduction, stream);
    }
  });
}

void PeerCommunicator::broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) {
  show(data);
  together(stream, [&] { copy(data, seen(root), bytes, stream); });
}

}  // namespace tessera::cuda
