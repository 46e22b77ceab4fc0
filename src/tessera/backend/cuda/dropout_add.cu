// dropout_add, dropout_grad.
//
// Element e of the global batch's tensor takes the number in lane e % 4 of the Philox block with
//   key           seed, 64 bits: key[0] the lower half, key[1] the upper
//   counter low   e / 4 in the lower 48 bits, the dropout's stream in the upper 16
//   counter high  the step
// and is kept if that number, made uniform in (0, 1), is at least the rate. The same on every backend.
#include <algorithm>
#include <cmath>

#include "tessera/backend/cuda/launch.cuh"
#include "tessera/base/philox.h"
#include "tessera/ops/dropout_add.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

// Where the elements of x lie in the global batch: x is [outer, rows, inner], of which `rows` may be a part.
struct GlobalElements {
  std::int64_t sequence = 0;  // elements of a whole sequence; key[3] counts the sequences before this batch
  std::int64_t first = 0;     // of outer 0, row 0, behind those
  std::int64_t run = 0;       // local elements that are neighbours there, too
  std::int64_t distance = 0;  // between the first elements of two runs
};

GlobalElements global_elements(const KernelCall& call, const DropoutAttrs& attrs) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t local_dim = attrs.cut.cut ? shape[attrs.cut_dim] : 1;
  std::int64_t inner = 1, sequence = attrs.cut.cut && attrs.cut_dim > 0 ? attrs.cut.whole : 1;
  for (int d = attrs.cut_dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  for (int d = 1; d < shape.rank(); ++d) sequence *= attrs.cut.cut && d == attrs.cut_dim ? 1 : shape[d];
  if (!attrs.cut.cut) return {sequence, 0, shape.num_elems(), 0};
  return {sequence, first_index(call, attrs.cut, local_dim) * inner, local_dim * inner,
          attrs.cut.whole * inner};
}

// Whether a pack of x is one there, too, of whole Philox blocks.
bool packs_stay_whole(const GlobalElements& global, std::int64_t pack) {
  return global.run % pack == 0 && global.sequence % 4 == 0 && global.first % 4 == 0 &&
         global.distance % 4 == 0;
}

struct DropoutNumbers {
  std::uint64_t stream;
  std::uint32_t threshold;  // the rate in units of 2^-24: comparing integers is comparing philox_uniform
  float keep_factor;
};

// y = x keep_factor where the element is kept, 0 elsewhere, plus the residual if there is one. y may lie on x
// or the residual.
template <int W, class T>
__global__ void drop_packs(const T* x, const std::int32_t* key, const T* residual, T* y,
                           std::int64_t num_elems, GlobalElements global, DropoutNumbers numbers) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (at >= num_elems) return;
  const std::uint64_t seed =
      static_cast<std::uint32_t>(key[0]) | std::uint64_t{static_cast<std::uint32_t>(key[1])} << 32;
  const std::uint64_t step = static_cast<std::uint32_t>(key[2]);
  const std::int64_t begin = key[3] * global.sequence + global.first;
  float v[W], base[W] = {};
  load<W>(x + at, v);
  if (residual != nullptr) load<W>(residual + at, base);
  const auto element =
      static_cast<std::uint64_t>(begin + at / global.run * global.distance + at % global.run);
  constexpr int kOfBlock = std::min(W, 4);
#pragma unroll
  for (int i = 0; i < W; i += kOfBlock) {
    const PhiloxBlock block = philox(seed, (numbers.stream << 48) + element / 4 + i / 4, step);
#pragma unroll
    for (int k = 0; k < kOfBlock; ++k) {
      const std::uint32_t lane =
          W == 1 ? static_cast<std::uint32_t>(element % 4) : static_cast<std::uint32_t>(k);
      const std::uint32_t bits = lane == 0   ? block[0]
                                 : lane == 1 ? block[1]
                                 : lane == 2 ? block[2]
                                             : block[3];
      v[i + k] = base[i + k] + v[i + k] * ((bits >> 8) >= numbers.threshold ? numbers.keep_factor : 0.0f);
    }
  }
  store<W>(y + at, v);
}

void drop(const KernelCall& call, Context& context, const TensorView* residual) {
  const auto& attrs = call.attrs->as<DropoutAttrs>();
  TS_ASSERT(attrs.stream >= 0 && attrs.stream < (1 << 16));
  const DropoutNumbers numbers{static_cast<std::uint64_t>(attrs.stream),
                               static_cast<std::uint32_t>(std::ceil(attrs.rate * 0x1p24 - 0.5)),
                               static_cast<float>(1.0 / (1.0 - attrs.rate))};
  const GlobalElements global = global_elements(call, attrs);
  const std::int64_t num_elems = call.outputs[0].num_elems();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = data<T>(call.inputs[0]);
    const T* base = residual ? data<T>(*residual) : nullptr;
    T* y = data<T>(call.outputs[0]);
    const bool fit = packs_fit<T>(num_elems, x, base, y) && packs_stay_whole(global, kPack<T>);
    with_packs<T>(fit, [&]<class Width>(Width) {
      constexpr int W = Width::value;
      drop_packs<W><<<num_blocks(num_elems, W * kThreads), kThreads, 0, context.stream>>>(
          x, data<std::int32_t>(call.inputs[1]), base, y, num_elems, global, numbers);
    });
  });
}

}  // namespace

void dropout_add(const KernelCall& call, Context& context) {
  drop(call, context, call.inputs.size() == 3 ? &call.inputs[2] : nullptr);
}

void dropout_grad(const KernelCall& call, Context& context) {
  drop(call, context, nullptr);
}

}  // namespace tessera::cuda
