// map: y[i] = f(a[i], b[i % period]) over a flat tensor, a pack per thread. y may lie on a or b: an element
// is written by the thread that has read it.
#pragma once

#include "tessera/backend/cuda/launch.cuh"

namespace tessera::cuda {

// `b` may be null: f then sees zeros.
template <int W, class T, class F>
__global__ void map_packs(const T* a, const T* b, T* y, std::int64_t num_elems, std::int64_t period, F f) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (at >= num_elems) return;
  float x[W], other[W] = {};
  load<W>(a + at, x);
  if (b != nullptr) load<W>(b + (period == num_elems ? at : at % period), other);
#pragma unroll
  for (int i = 0; i < W; ++i) x[i] = f(x[i], other[i]);
  store<W>(y + at, x);
}

template <int W, class T, class F>
void launch_map(Context& context, const T* a, const T* b, T* y, std::int64_t num_elems, std::int64_t period,
                F f) {
  if (num_elems == 0) return;
  map_packs<W>
      <<<num_blocks(num_elems, W * kThreads), kThreads, 0, context.stream>>>(a, b, y, num_elems, period, f);
}

// Whole packs, and the few elements behind the last of them one by one.
template <class T, class F>
void map(Context& context, const T* a, const T* b, T* y, std::int64_t num_elems, std::int64_t period, F f) {
  const bool repeats = b != nullptr && period != num_elems;
  if (!packs_fit<T>(repeats ? period : 0, a, b, y)) {
    return launch_map<1>(context, a, b, y, num_elems, period, f);
  }
  const std::int64_t whole = num_elems / kPack<T> * kPack<T>;
  launch_map<kPack<T>>(context, a, b, y, whole, repeats ? period : whole, f);
  const T* const rest = b == nullptr ? nullptr : b + (repeats ? 0 : whole);
  launch_map<1>(context, a + whole, rest, y + whole, num_elems - whole, num_elems - whole, f);
}

}  // namespace tessera::cuda
