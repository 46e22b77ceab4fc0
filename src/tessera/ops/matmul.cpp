#include "tessera/ops/matmul.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_matmul(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  const auto& attrs = call.attrs.as<MatmulAttrs>();
  const Shape &a = call.shape(0), &b = call.shape(1);
  call.check(a.rank() >= 2 && a.rank() == b.rank(), "operands {} and {} must have the same rank, at least 2",
             a.text(), b.text());
  for (int d = 0; d < a.rank() - 2; ++d) {
    call.check(a[d] == b[d], "leading dims of {} and {} differ", a.text(), b.text());
  }
  const std::int64_t inner_a = attrs.transpose_a ? a[-2] : a[-1];
  const std::int64_t inner_b = attrs.transpose_b ? b[-1] : b[-2];
  call.check(inner_a == inner_b, "inner dims of {} and {} differ: {} and {}", a.text(), b.text(), inner_a,
             inner_b);
  ValueType out = call.inputs[0];
  out.shape.set(-2, attrs.transpose_a ? a[-1] : a[-2]);
  out.shape.set(-1, attrs.transpose_b ? b[-2] : b[-1]);
  return {out};
}

// With A = op(a), B = op(b), C = A B: dA = dC B^T and dB = A^T dC, transposed back where op transposed.
void grad_matmul(GradContext& context) {
  const ValueId dc = context.output_grad(0);
  const Node node = context.node();
  const auto [ta, tb] = node.attrs.as<MatmulAttrs>();
  const ValueId a = node.inputs[0], b = node.inputs[1];
  if (context.needs_grad(0)) {
    const ValueId da = ta ? context.emit(Op::matmul, MatmulAttrs{tb, true}, {b, dc}, "grad_a")[0]
                          : context.emit(Op::matmul, MatmulAttrs{false, !tb}, {dc, b}, "grad_a")[0];
    context.set_input_grad(0, da);
  }
  if (context.needs_grad(1)) {
    const ValueId db = tb ? context.emit(Op::matmul, MatmulAttrs{true, ta}, {dc, a}, "grad_b")[0]
                          : context.emit(Op::matmul, MatmulAttrs{!ta, false}, {a, dc}, "grad_b")[0];
    context.set_input_grad(1, db);
  }
}

Cost cost_matmul(const Graph& graph, const Node& node) {
  Cost cost;
  for (ValueId v : {node.inputs[0], node.inputs[1], node.outputs[0]}) cost.bytes += graph.type(v).num_bytes();
  const Shape& a = graph.type(node.inputs[0]).shape;
  const auto inner = static_cast<double>(node.attrs.as<MatmulAttrs>().transpose_a ? a[-2] : a[-1]);
  cost.flops = 2 * inner * static_cast<double>(graph.type(node.outputs[0]).shape.num_elems());
  return cost;
}

std::string matmul_signature(const PlacementCall& call) {
  const auto [ta, tb] = call.node.attrs.as<MatmulAttrs>();
  return fmt::format("a:...{} b:...{} -> c:...mn", ta ? "km" : "mk", tb ? "nk" : "kn");
}

}  // namespace

OpDef matmul_def() {
  return {.infer = infer_matmul,
          .placement = {.cuts = ".mnk", .signature = matmul_signature},
          .grad = grad_matmul,
          .cost = cost_matmul};
}

ValueId matmul(Graph& graph, std::string name, ValueId a, ValueId b, MatmulAttrs attrs) {
  return emit(graph, Op::matmul, Phase::forward, std::move(name), attrs, {a, b})[0];
}

}  // namespace tessera
