// dropout_add, dropout_grad.
//
// Element e of the global batch's tensor takes the number in lane e % 4 of the Philox block with
//   key           seed, 64 bits: key[0] the lower half, key[1] the upper
//   counter low   e / 4 in the lower 48 bits, the dropout's stream in the upper 16
//   counter high  the step
// and is kept if that number, made uniform in (0, 1), is at least the rate.
#include "tessera/ops/dropout_add.h"

#include <cmath>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/base/philox.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kMaskBlocks = 64;
constexpr std::int64_t kMaskElems = 4 * kMaskBlocks;
static_assert(kTaskElems % kMaskElems == 0);

// What the elements of one call have in common.
struct DropoutCounters {
  std::uint64_t seed, low, high;

  DropoutCounters(std::int64_t stream, std::span<const std::int32_t> key)
      : seed(pair(key[0], key[1])),
        low(static_cast<std::uint64_t>(stream) << 48),
        high(static_cast<std::uint32_t>(key[2])) {
    TS_ASSERT(stream >= 0 && stream < (1 << 16));
  }
  static std::uint64_t pair(std::int32_t lower, std::int32_t upper) {
    return static_cast<std::uint32_t>(lower) | std::uint64_t{static_cast<std::uint32_t>(upper)} << 32;
  }
};

// The random bits of kMaskElems elements from `first` on lie from the returned place on; `bits` has room for
// a block more.
const std::uint32_t* random_bits(const DropoutCounters& counters, std::int64_t first, std::uint32_t* bits) {
  const std::uint64_t seed = counters.seed, high = counters.high;
  const std::uint64_t low = counters.low + static_cast<std::uint64_t>(first) / 4;
#pragma omp simd
  for (std::uint64_t i = 0; i < kMaskBlocks + 1; ++i) {
    const PhiloxBlock block = philox(seed, low + i, high);
    bits[4 * i] = block[0];
    bits[4 * i + 1] = block[1];
    bits[4 * i + 2] = block[2];
    bits[4 * i + 3] = block[3];
  }
  return bits + first % 4;
}

// Where the elements of x lie in the global batch: x is [outer, rows, inner], of which `rows` may be a part.
struct GlobalElements {
  std::int64_t first = 0;     // of outer 0, row 0
  std::int64_t run = 0;       // local elements that are neighbours there, too
  std::int64_t distance = 0;  // between the first elements of two runs
  std::int64_t operator()(std::int64_t local) const { return first + local / run * distance + local % run; }
};

GlobalElements global_elements(const KernelCall& call, const DropoutAttrs& attrs) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t local_dim = attrs.cut.cut ? shape[attrs.cut_dim] : 1;
  std::int64_t inner = 1, sequence = attrs.cut.cut && attrs.cut_dim > 0 ? attrs.cut.whole : 1;
  for (int d = attrs.cut_dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  for (int d = 1; d < shape.rank(); ++d) sequence *= attrs.cut.cut && d == attrs.cut_dim ? 1 : shape[d];
  const std::int64_t before = call.inputs[1].as<std::int32_t>()[3] * sequence;
  if (!attrs.cut.cut) return {before, shape.num_elems(), 0};
  return {before + first_index(call, attrs.cut, local_dim) * inner, local_dim * inner,
          attrs.cut.whole * inner};
}

// y = x / (1 - rate) where the element is kept, 0 elsewhere, plus the residual if there is one. The
// threshold is the rate in units of 2^-24, so that comparing integers is comparing philox_uniform.
template <class T>
void drop_block(const T* x, const T* residual, T* y, const std::uint32_t* bits, std::uint32_t threshold,
                Accumulate<T> keep_factor, std::int64_t size) {
  using A = Accumulate<T>;
  if (residual != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const A factor = (bits[i] >> 8) >= threshold ? keep_factor : A{0};
      put(y[i], widen(residual[i]) + widen(x[i]) * factor);
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const A factor = (bits[i] >> 8) >= threshold ? keep_factor : A{0};
      put(y[i], widen(x[i]) * factor);
    }
  }
}

// y may lie on x.
void drop(const KernelCall& call, Context& context, const TensorView* residual) {
  const auto& attrs = call.attrs->as<DropoutAttrs>();
  const DropoutCounters counters(attrs.stream, call.inputs[1].as<std::int32_t>());
  const auto threshold = static_cast<std::uint32_t>(std::ceil(attrs.rate * 0x1p24 - 0.5));
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const auto keep_factor = static_cast<Accumulate<T>>(1.0 / (1.0 - attrs.rate));
    const T* x = call.inputs[0].as<T>().data();
    const T* base = residual ? residual->as<T>().data() : nullptr;
    T* y = call.outputs[0].as<T>().data();
    const GlobalElements global = global_elements(call, attrs);
    for_each_elem_block(context.pool, call.outputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
      std::array<std::uint32_t, kMaskElems + 4> room;
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t size = std::min({kMaskElems, end - at, global.run - at % global.run});
        const std::uint32_t* bits = random_bits(counters, global(at), room.data());
        drop_block(x + at, base ? base + at : nullptr, y + at, bits, threshold, keep_factor, size);
        at += size;
      }
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

}  // namespace tessera::cpu
