// Counts the uses of a ring of buffers in shared memory; a barrier's phase (bulk_copy.cuh) has the parity of
// its use.
#pragma once

namespace tessera::cuda {

template <int kNum>
struct Ring {
  int uses = 0;
  __device__ int at() const { return uses % kNum; }
  __device__ unsigned parity() const { return static_cast<unsigned>(uses / kNum) & 1; }
};

}  // namespace tessera::cuda
