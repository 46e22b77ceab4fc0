// rope_table, rope.
#include "tessera/ops/rope.h"

#include <algorithm>
#include <cmath>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {
namespace {

template <class T>
void copy_unless_in_place(const T* from, T* to, std::int64_t num_elems) {
  if (from != to) std::copy(from, from + num_elems, to);
}

// One head of one token; half = rotary_dim / 2 pairs, each turned by its (cos, sin).
template <class T>
void turn_head(const T* x, T* y, const Accumulate<T>* table, std::int64_t half, Accumulate<T> direction) {
  using A = Accumulate<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const A cos = table[2 * i], sin = direction * table[2 * i + 1];
    const A first = widen(x[i]), second = widen(x[i + half]);
    put(y[i], first * cos - second * sin);
    put(y[i + half], second * cos + first * sin);
  }
}

}  // namespace

void rope_table(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeTableAttrs>();
  const std::int64_t half = attrs.rotary_dim / 2;
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    T* table = call.outputs[0].as<T>().data();
    for_each_row(context.pool, attrs.seq_len, attrs.rotary_dim, [&](std::int64_t position) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(attrs.rotary_dim);
        const double angle = static_cast<double>(position) * std::pow(attrs.theta, exponent);
        T* pair = table + 2 * (position * half + i);
        put(pair[0], static_cast<Accumulate<T>>(std::cos(angle)));
        put(pair[1], static_cast<Accumulate<T>>(std::sin(angle)));
      }
    });
  });
}

void rope(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeAttrs>();
  const TensorView& qkv = call.inputs[0];
  const std::int64_t seq_len = qkv.shape[1], columns = qkv.shape[2], half = call.inputs[1].shape[1];
  const std::int64_t head_dim = attrs.heads.head_dim, last = call.inputs[1].shape[0] - 1;
  const std::int64_t first = call.inputs.size() == 3 ? call.inputs[2].as<std::int32_t>()[0] : 0;
  const std::int64_t turned_heads = attrs.heads.heads + attrs.heads.kv_heads;
  for_dtype(qkv.dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* x = qkv.as<T>().data();
    const A* table = call.inputs[1].as<A>().data();
    T* y = call.outputs[0].as<T>().data();
    const A direction = attrs.inverse ? A{-1} : A{1};
    for_each_row(context.pool, qkv.shape.num_rows(), columns, [=](std::int64_t token) {
      const T* from = x + token * columns;
      T* to = y + token * columns;
      const A* turns = table + std::min(last, first + token % seq_len) * half * 2;
      for (std::int64_t head = 0; head < turned_heads; ++head, from += head_dim, to += head_dim) {
        turn_head(from, to, turns, half, direction);
        copy_unless_in_place(from + 2 * half, to + 2 * half, head_dim - 2 * half);
      }
      copy_unless_in_place(from, to, columns - turned_heads * head_dim);
    });
  });
}

}  // namespace tessera::cpu
