// dropout_add, dropout_grad.
//
// Element e of the tensor takes the number in lane e % 4 of the Philox block with
//   key           seed, 64 bits: key[0] the lower half, key[1] the upper
//   counter low   e / 4 in the lower 48 bits, the dropout's stream in the upper 16
//   counter high  the step in the lower 32 bits, the micro-batch in the upper 32
// and is kept if that number, made uniform in (0, 1), is at least the rate.
#include "tessera/ops/dropout_add.h"

#include <cmath>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/base/philox.h"

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
        high(pair(key[2], key[3])) {
    TS_ASSERT(stream >= 0 && stream < (1 << 16));
  }
  static std::uint64_t pair(std::int32_t lower, std::int32_t upper) {
    return static_cast<std::uint32_t>(lower) | std::uint64_t{static_cast<std::uint32_t>(upper)} << 32;
  }
};

// The random bits of kMaskElems elements from `first` on, a multiple of 4.
void random_bits(const DropoutCounters& counters, std::int64_t first, std::uint32_t* bits) {
  const std::uint64_t seed = counters.seed, high = counters.high;
  const std::uint64_t low = counters.low + static_cast<std::uint64_t>(first) / 4;
#pragma omp simd
  for (std::uint64_t i = 0; i < kMaskBlocks; ++i) {
    const PhiloxBlock block = philox(seed, low + i, high);
    bits[4 * i] = block[0];
    bits[4 * i + 1] = block[1];
    bits[4 * i + 2] = block[2];
    bits[4 * i + 3] = block[3];
  }
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
    for_each_elem_block(context.pool, call.outputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
      std::array<std::uint32_t, kMaskElems> bits;
      for (std::int64_t at = begin; at < end; at += kMaskElems) {
        random_bits(counters, at, bits.data());
        drop_block(x + at, base ? base + at : nullptr, y + at, bits.data(), threshold, keep_factor,
                   std::min(kMaskElems, end - at));
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
