// The update's ops have no gradient; what they compute is tested in tests/optim and tests/backend_cpu.
#include "tessera/ops/optimizer_ops.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily optimizer_ops_family() {
  OpFamily family;
  const ValueType p = f64({2, 3}), one = f64({}), step = i32({});
  const ValueType low{DType::bf16, {2, 3}}, high = f32({2, 3}), single = f32({});
  const AdamWAttrs attrs{};
  family.refused = {
      {Op::sum_squares, SumSquaresAttrs{}, {i32({3})}, {"i32", "floating"}},
      {Op::sum_scalars, {}, {one, f64({1})}, {"f64[]", "f64[1]"}},
      {Op::sum_scalars, {}, {f64({1}), f64({1})}, {"[1]", "[]"}},
      {Op::sum_scalars, {}, {one, single}, {"f64[]", "f32[]"}},
      {Op::sum_scalars, {}, {step, step}, {"i32", "floating"}},
      {Op::clip_factor, ClipFactorAttrs{1.0}, {f64({1})}, {"[1]", "[]"}},
      {Op::clip_factor, ClipFactorAttrs{1.0}, {step}, {"i32", "floating"}},
      {Op::adamw, attrs, {p, f64({3}), p, p, one, step, one}, {"gradient", "f64[3]", "f64[2,3]"}},
      {Op::adamw, attrs, {p, p, p, high, one, step, one}, {"input 3", "f32[2,3]", "f64[2,3]"}},
      {Op::adamw, attrs, {p, p, p, p, f64({1}), step, one}, {"input 4", "[1]", "[]"}},
      {Op::adamw, attrs, {p, p, p, p, single, step, one}, {"input 4", "f32", "f64"}},
      {Op::adamw, attrs, {p, p, p, p, one, one, one}, {"input 5", "f64", "i32"}},
      {Op::adamw, attrs, {p, p, p, p, one, step, single}, {"input 6", "f32", "f64"}},
      {Op::adamw, attrs, {p, p, p, p, one, step, one, p}, {"master"}},
      {Op::adamw, attrs, {low, high, high, high, single, step, single}, {"master"}},
      {Op::adamw, attrs, {low, high, high, high, single, step, single, f32({3})}, {"f32[3]", "f32[2,3]"}},
  };
  return family;
}

}  // namespace tessera
