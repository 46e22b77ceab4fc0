// The update's ops have no gradient; what they compute is tested in tests/optim and tests/backend_cpu.
#include "tessera/ops/optimizer_ops.h"

#include "ops/op_check.h"
#include "tessera/ops/lamb.h"
#include "tessera/ops/sgd.h"

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
      {Op::adamw, attrs, {p, p, p, p, one, step, one, p}, {"low halves"}},
      {Op::adamw, attrs, {low, high, high, high, single, step, single}, {"low halves"}},
      {Op::adamw,
       attrs,
       {low, high, high, high, single, step, single, ValueType{DType::i16, {3}}},
       {"i16[3]", "i16[2,3]"}},
      {Op::adamw, attrs, {low, high, high, high, single, step, single, high}, {"f32[2,3]", "i16[2,3]"}},
      {Op::adamw,
       attrs,
       {high, low, high, high, single, step, single},
       {"gradient", "bf16[2,3]", "f32[2,3]"}},
      {Op::adamw, attrs, {low, high, low, low, single, step, single, high}, {"low halves"}},
      {Op::adamw, attrs, {low, high, low, high, single, step, single}, {"input 3", "f32[2,3]", "bf16[2,3]"}},
      {Op::stack_scalars, {}, {one, single}, {"f64[]", "f32[]"}},
      {Op::stack_scalars, {}, {f64({1})}, {"[1]", "[]"}},
      {Op::lamb_direction, LambDirectionAttrs{}, {p, p, p, f64({3}), step, one}, {"input 3", "f64[3]"}},
      {Op::lamb_direction, LambDirectionAttrs{}, {p, p, p, p, one, one}, {"input 4", "f64", "i32"}},
      {Op::lamb_direction, LambDirectionAttrs{}, {low, high, high, high, step, single}, {"low halves"}},
      {Op::lamb, LambAttrs{}, {p, f64({3}), one, f64({4})}, {"gradient", "f64[3]", "f64[2,3]"}},
      {Op::lamb, LambAttrs{.index = 4}, {p, p, one, f64({4})}, {"squares", "[4]", "4 and 5"}},
      {Op::lamb, LambAttrs{}, {p, p, one, f64({4}), p}, {"low halves"}},
      {Op::sgd, SgdAttrs{}, {p, p, high, one, one}, {"input 2", "f32[2,3]", "f64[2,3]"}},
      {Op::sgd, SgdAttrs{}, {p, p, p, one, f64({1})}, {"input 4", "[1]", "[]"}},
      {Op::sgd, SgdAttrs{}, {low, high, high, single, single}, {"low halves"}},
  };
  return family;
}

}  // namespace tessera
