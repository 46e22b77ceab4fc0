// sum_of_ranks: the kernel that adds what several ranks hold, where one GPU can read the memory of all: in
// the order of the ranks, in fp32 for bf16, rounded once: the bits of comm/reduce_ascending.h. Used by
// PeerCommunicator, and for copies of a shard's pieces whoever brought them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "tessera/comm/communicator.h"

namespace tessera::cuda {

// Addresses travel as arguments of the kernel.
inline constexpr int kMostPeers = 64;

struct RankSum {
  std::array<const void*, kMostPeers> from;  // in the order of the ranks
  std::array<void*, kMostPeers> to;          // all get the result
  int num_from = 0, num_to = 0;
  std::int64_t count = 0;  // elements of the result
  // Element i of the result is the sum of elements i / inner * stride + i % inner of the sources.
  std::int64_t inner = 0, stride = 0;
};

void sum_of_ranks(const RankSum& sum, DType dtype, Reduction reduction, cudaStream_t stream);

}  // namespace tessera::cuda
