#include "tessera/ops/update_operands.h"

namespace tessera {

void check_update_operands(const InferCall& call, const FlatRange& range, const UpdateOperands& at) {
  call.check_floating(0);
  const bool has_low = call.inputs.size() == at.low + 1;
  const ValueType sums{accumulate_dtype(call.dtype(0)), call.shape(0)};
  const ValueType rounded_sums{DType::bf16, call.shape(0)};
  call.check(call.inputs[1] == sums || (call.dtype(0) == DType::bf16 && call.inputs[1] == rounded_sums),
             "input 1, the gradient, is {}, expected {}", call.inputs[1].text(), sums.text());
  // State is as wide as the accumulator, or bf16.
  const bool narrow =
      !at.states.empty() && call.dtype(at.states[0]) == DType::bf16 && sums.dtype == DType::f32;
  const Shape part = range.cut ? Shape{flat_range_size(sums.shape.num_elems(), range.num_ranks)} : sums.shape;
  const ValueType state{narrow ? DType::bf16 : sums.dtype, part};
  for (std::size_t i : at.states) {
    call.check(call.inputs[i] == state, "input {} is {}, expected {}", i, call.inputs[i].text(),
               state.text());
  }
  for (std::size_t i : at.scalars) {
    call.check_dtype(i, sums.dtype);
    call.check_shape(i, Shape{});
  }
  if (at.step != 0) {
    call.check_dtype(at.step, DType::i32);
    call.check_shape(at.step, Shape{});
  }
  // Without state among the operands, whoever made that state knows whether there are low halves.
  const bool wants_low = call.dtype(0) == DType::bf16 && !narrow;
  call.check(at.states.empty() ? !has_low || wants_low : has_low == wants_low,
             "a bf16 parameter with wider state, and only that, needs low halves");
  if (!has_low) return;
  const ValueType low{DType::i16, part};
  call.check(call.inputs[at.low] == low, "low halves are {}, expected {}", call.inputs[at.low].text(),
             low.text());
}

FlatRange flat_range(const PlacementCall& call) {
  const int num_ranks = call.flat_ranks > 0 ? call.flat_ranks : call.num_ranks;
  return {true, call.axis, num_ranks, call.num_ranks / num_ranks};
}

}  // namespace tessera
