#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/sum_of_ranks.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kMostBlocks = 1024;

template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, BFloat>, float, T>;

template <class T>
__device__ Accumulate<T> accumulator_of(T stored) {
  if constexpr (std::is_same_v<T, BFloat>) {
    return widen(stored);
  } else {
    return stored;
  }
}

// As the host's Bf16(float), a NaN's bits included, which CUDA's own conversion replaces.
template <class T>
__device__ T stored_as(Accumulate<T> value) {
  if constexpr (std::is_same_v<T, BFloat>) {
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return __ushort_as_bfloat16(static_cast<unsigned short>(value == value ? rounded : (bits >> 16) | 0x40u));
  } else {
    return value;
  }
}

template <Reduction R, class A>
__device__ A combined(A so_far, A next) {
  if constexpr (R == Reduction::max) {
    return next > so_far || next != next ? next : so_far;
  } else if constexpr (std::is_same_v<A, std::int32_t>) {
    return static_cast<A>(static_cast<unsigned>(so_far) + static_cast<unsigned>(next));
  } else {
    return so_far + next;
  }
}

template <class T, Reduction R, int W>
__global__ void sum_packs(const RankSum sum) {
  using P = Pack<T, W>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * W;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * W; i < sum.count;
       i += step) {
    const std::int64_t at = i / sum.inner * sum.stride + i % sum.inner;
    Accumulate<T> total[W];
    for (int rank = 0; rank < sum.num_from; ++rank) {
      const P pack = *reinterpret_cast<const P*>(static_cast<const T*>(sum.from[rank]) + at);
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const Accumulate<T> next = accumulator_of(pack.elems[w]);
        total[w] = rank == 0 ? next : combined<R>(total[w], next);
      }
    }
    P result;
#pragma unroll
    for (int w = 0; w < W; ++w) result.elems[w] = stored_as<T>(total[w]);
    for (int rank = 0; rank < sum.num_to; ++rank) {
      *reinterpret_cast<P*>(static_cast<T*>(sum.to[rank]) + i) = result;
    }
  }
}

bool aligned(const RankSum& sum) {
  const auto is_aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  return std::all_of(sum.from.begin(), sum.from.begin() + sum.num_from, is_aligned) &&
         std::all_of(sum.to.begin(), sum.to.begin() + sum.num_to, is_aligned);
}

template <class T, Reduction R>
void launch(const RankSum& sum, cudaStream_t stream) {
  const bool fit = sum.count % kPack<T> == 0 && sum.inner % kPack<T> == 0 && sum.stride % kPack<T> == 0;
  with_packs<T>(fit && aligned(sum), [&](auto w) {
    constexpr int kW = decltype(w)::value;
    const unsigned blocks = std::min(kMostBlocks, num_blocks(sum.count, kThreads * kW));
    sum_packs<T, R, kW><<<blocks, kThreads, 0, stream>>>(sum);
  });
  check_cuda(cudaGetLastError(), "add what the ranks hold");
}

template <class T>
void launch(const RankSum& sum, Reduction reduction, cudaStream_t stream) {
  if (reduction == Reduction::sum) {
    launch<T, Reduction::sum>(sum, stream);
  } else {
    launch<T, Reduction::max>(sum, stream);
  }
}

}  // namespace

void sum_of_ranks(const RankSum& sum, DType dtype, Reduction reduction, cudaStream_t stream) {
  if (sum.count == 0) return;
  switch (dtype) {
    case DType::f32:
      return launch<float>(sum, reduction, stream);
    case DType::bf16:
      return launch<BFloat>(sum, reduction, stream);
    case DType::f64:
      return launch<double>(sum, reduction, stream);
    case DType::i32:
      return launch<std::int32_t>(sum, reduction, stream);
    case DType::i16:
      break;
  }
  TS_ASSERT(!"halves of numbers are not added");
}

}  // namespace tessera::cuda
