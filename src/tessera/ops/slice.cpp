#include "tessera/ops/slice.h"

namespace tessera {

std::int64_t dim_stride(const Shape& shape, int dim) {
  std::int64_t stride = 1;
  for (int d = dim + 1; d < 0; ++d) stride *= shape[d];
  return stride;
}

namespace {

std::vector<ValueType> infer_slice(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  const auto& attrs = call.attrs.as<SliceAttrs>();
  TS_ASSERT(attrs.dim < 0);
  call.check_rank_at_least(0, -attrs.dim);
  call.check(attrs.begin >= 0 && attrs.size >= 1 && attrs.begin + attrs.size <= call.shape(0)[attrs.dim],
             "columns {} to {} are outside of input {}", attrs.begin, attrs.begin + attrs.size,
             call.shape(0).text());
  ValueType out = call.inputs[0];
  out.shape.set(attrs.dim, attrs.size);
  return {out};
}

void grad_slice(GradContext& context) {
  const auto& attrs = context.node().attrs.as<SliceAttrs>();
  const std::int64_t total = context.graph().type(context.node().inputs[0]).shape[attrs.dim];
  context.set_input_grad(
      0, context.emit(Op::pad, PadAttrs{attrs.begin, total, attrs.dim}, {context.output_grad(0)})[0]);
}

std::vector<ValueType> infer_pad(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  const auto& attrs = call.attrs.as<PadAttrs>();
  TS_ASSERT(attrs.dim < 0);
  call.check_rank_at_least(0, -attrs.dim);
  call.check(attrs.begin >= 0 && attrs.begin + call.shape(0)[attrs.dim] <= attrs.total,
             "{} does not fit in {} columns at {}", call.shape(0).text(), attrs.total, attrs.begin);
  ValueType out = call.inputs[0];
  out.shape.set(attrs.dim, attrs.total);
  return {out};
}

void grad_pad(GradContext& context) {
  const auto& attrs = context.node().attrs.as<PadAttrs>();
  const std::int64_t size = context.graph().type(context.node().inputs[0]).shape[attrs.dim];
  context.set_input_grad(
      0, context.emit(Op::slice, SliceAttrs{attrs.begin, size, attrs.dim}, {context.output_grad(0)})[0]);
}

std::vector<ValueType> infer_concat(const InferCall& call) {
  call.check(!call.inputs.empty(), "needs at least one input");
  std::int64_t columns = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.check_floating(i);
    call.check_rank_at_least(i, 1);
    ValueType piece = call.inputs[i];
    columns += piece.shape[-1];
    piece.shape.set(-1, call.shape(0)[-1]);
    call.check(piece == call.inputs[0], "input {} is {}, which does not fit beside {}", i,
               call.inputs[i].text(), call.inputs[0].text());
  }
  ValueType out = call.inputs[0];
  out.shape.set(-1, columns);
  return {out};
}

void grad_concat(GradContext& context) {
  const ValueId dy = context.output_grad(0);
  const Node node = context.node();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::int64_t size = context.graph().type(node.inputs[i]).shape[-1];
    if (context.needs_grad(i)) {
      const std::string suffix = "grad" + std::to_string(i);
      context.set_input_grad(i, context.emit(Op::slice, SliceAttrs{begin, size}, {dy}, suffix)[0]);
    }
    begin += size;
  }
}

// The dims before the cut one may be cut; those behind it are named so that they are not.
std::string signature_of(int dim) {
  const std::string_view behind = std::string_view("efghijk").substr(0, static_cast<std::size_t>(-dim - 1));
  return fmt::format("x:...c{} -> y:...d{}", behind, behind);
}
std::string slice_signature(const PlacementCall& call) {
  return signature_of(call.node.attrs.as<SliceAttrs>().dim);
}
std::string pad_signature(const PlacementCall& call) {
  return signature_of(call.node.attrs.as<PadAttrs>().dim);
}

}  // namespace

OpDef slice_def() {
  return {.infer = infer_slice, .placement = {.cuts = ".", .signature = slice_signature}, .grad = grad_slice};
}
OpDef pad_def() {
  return {.infer = infer_pad, .placement = {.cuts = ".", .signature = pad_signature}, .grad = grad_pad};
}
OpDef concat_def() {
  return {
      .infer = infer_concat, .placement = {.operands = "x:...c -> y:...d", .cuts = "."}, .grad = grad_concat};
}

ValueId slice(Graph& graph, std::string name, ValueId x, std::int64_t begin, std::int64_t size, int dim) {
  return emit(graph, Op::slice, Phase::forward, std::move(name), SliceAttrs{begin, size, dim}, {x})[0];
}

ValueId concat(Graph& graph, std::string name, std::vector<ValueId> pieces) {
  return emit(graph, Op::concat, Phase::forward, std::move(name), {}, std::move(pieces))[0];
}

}  // namespace tessera
