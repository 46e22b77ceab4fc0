#include "tessera/backend/cuda/initial_values.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/base/float_halves.h"
#include "tessera/base/philox.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ T stored(float value) {
  if constexpr (std::is_same_v<T, std::int16_t>) {
    return low_half(__float_as_uint(value));
  } else {
    return narrow<T>(value);
  }
}

// A thread makes the four numbers of one Philox block, of which the first and the last may lie outside.
template <class T>
__global__ void write_normals(T* to, std::int64_t count, NormalNumbers numbers) {
  const std::int64_t group = numbers.first / 4 + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const PhiloxBlock block = philox(numbers.seed, static_cast<std::uint64_t>(group), numbers.stream);
  const auto deviation = static_cast<float>(numbers.deviation);
#pragma unroll
  for (int pair = 0; pair < 4; pair += 2) {
    const auto uniform = [](std::uint32_t bits) { return ((bits >> 8) + 0.5) * 0x1p-24; };
    const double radius = sqrt(-2.0 * log(uniform(block[static_cast<std::size_t>(pair)])));
    double sine, cosine;
    sincos(2.0 * std::numbers::pi * uniform(block[static_cast<std::size_t>(pair + 1)]), &sine, &cosine);
    const float normals[2] = {static_cast<float>(radius * cosine), static_cast<float>(radius * sine)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t at = 4 * group + pair + i - numbers.first;
      if (at >= 0 && at < count) to[at] = stored<T>(deviation * normals[i]);
    }
  }
}

}  // namespace

void fill_normal(Context& context, const TensorView& to, const NormalNumbers& numbers) {
  const std::int64_t count = to.num_elems(), groups = (numbers.first + count + 3) / 4 - numbers.first / 4;
  if (count == 0) return;
  const auto write = [&]<class T>(T) {
    write_normals<<<num_blocks(groups, kThreads), kThreads, 0, context.stream>>>(data<T>(to), count, numbers);
  };
  to.dtype == DType::i16 ? write(std::int16_t{}) : for_dtype(to.dtype, write);
  check_cuda(cudaGetLastError(), "make initial weights");
}

}  // namespace tessera::cuda
