#include "tessera/ops/cross_entropy.h"

#include <algorithm>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/slice.h"

namespace tessera {
namespace {

// Logits of a chunk: every chunk reads the whole weight, so few large ones are faster; 235 MB
// of fp32 are still a tenth of what training GPT-2 keeps.
constexpr std::int64_t kChunkElems = 56 << 20;
constexpr std::int64_t kChunkRowMultiple = 64;

// Equal chunks of at most kChunkElems.
std::int64_t choose_chunk_rows(std::int64_t rows, std::int64_t vocab) {
  const std::int64_t most = std::max(kChunkRowMultiple, kChunkElems / vocab);
  const std::int64_t chunks = (rows + most - 1) / most;
  const std::int64_t even = (rows + chunks - 1) / chunks;
  return std::min(rows, (even + kChunkRowMultiple - 1) / kChunkRowMultiple * kChunkRowMultiple);
}

void check_targets(const InferCall& call, std::size_t rows_of, std::size_t targets, std::size_t scale) {
  call.check_rank_at_least(rows_of, 1);
  call.check_dtype(targets, DType::i32);
  Shape rows;  // dim by dim, as layouts cut them
  for (int i = 0; i + 1 < call.shape(rows_of).rank(); ++i) rows.push_back(call.shape(rows_of)[i]);
  call.check(call.shape(targets) == rows, "targets {} do not match the rows of {}",
             call.shape(targets).text(), call.shape(rows_of).text());
  call.check_dtype(scale, accumulate_dtype(call.dtype(rows_of)));
  call.check_shape(scale, Shape{});
}

std::vector<ValueType> infer_cross_entropy(const InferCall& call) {
  call.check_num_inputs(3, 3);
  call.check_floating(0);
  check_targets(call, 0, 1, 2);
  return {{accumulate_dtype(call.dtype(0)), Shape{}}};
}

void grad_cross_entropy(GradContext& context) {
  const Node node = context.node();
  context.set_input_grad(0, context.emit(Op::softmax_cross_entropy_grad, {}, node.inputs)[0]);
}

std::vector<ValueType> infer_cross_entropy_grad(const InferCall& call) {
  call.check_num_inputs(3, 3);
  call.check_floating(0);
  check_targets(call, 0, 1, 2);
  return {call.inputs[0]};
}

void check_bias(const InferCall& call, std::size_t input) {
  call.check_dtype(input, call.dtype(0));
  call.check_shape(input, Shape{call.shape(1)[0]});
}

void check_linear(const InferCall& call) {
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  call.check(call.shape(0).rank() >= 1 && call.shape(1).rank() == 2 && call.shape(1)[1] == call.shape(0)[-1],
             "input {} and weight {} differ in the inner dim", call.shape(0).text(), call.shape(1).text());
  check_targets(call, 0, 2, 3);
  const auto& attrs = call.attrs.as<LinearCrossEntropyAttrs>();
  call.check(attrs.chunk_rows >= 1, "chunk_rows is {}, expected at least 1", attrs.chunk_rows);
  call.check(attrs.words >= 0 && (attrs.vocabulary.cut || attrs.words <= call.shape(1)[0]),
             "{} words do not fit weight {}", attrs.words, call.shape(1).text());
}

std::vector<ValueType> infer_linear_cross_entropy(const InferCall& call) {
  call.check_num_inputs(4, 5);
  check_linear(call);
  if (call.inputs.size() == 5) check_bias(call, 4);
  return {{accumulate_dtype(call.dtype(0)), Shape{}}};
}

void grad_linear_cross_entropy(GradContext& context) {
  const Node node = context.node();
  const bool bias = node.inputs.size() == 5;
  std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.begin() + 4);
  inputs.push_back(context.accumulator(1));
  if (bias) inputs.insert(inputs.end(), {node.inputs[4], context.accumulator(4)});
  const auto grads = context.emit(Op::linear_cross_entropy_grad, node.attrs, std::move(inputs));
  context.set_loss(grads[0]);
  if (context.needs_grad(0)) context.set_input_grad(0, grads[1]);
  context.set_accumulator(1, grads[2]);
  if (bias) context.set_accumulator(4, grads[3]);
}

// x, weight, targets, loss scale, accumulator of the weight[, bias, accumulator of the bias]
//   -> loss, dx, accumulator[, accumulator of the bias]
std::vector<ValueType> infer_linear_cross_entropy_grad(const InferCall& call) {
  call.check_num_inputs(5, 7);
  check_linear(call);
  const DType wide = accumulate_dtype(call.dtype(0));
  call.check_dtype(4, wide);
  call.check_shape(4, call.shape(1));
  std::vector<ValueType> outputs = {{wide, Shape{}}, call.inputs[0], call.inputs[4]};
  if (call.inputs.size() == 5) return outputs;
  call.check_num_inputs(7, 7);
  check_bias(call, 5);
  call.check_dtype(6, wide);
  call.check_shape(6, call.shape(5));
  outputs.push_back(call.inputs[6]);
  return outputs;
}

std::vector<ValueId> compose_linear_cross_entropy(Graph& graph, const Node& node) {
  const std::int64_t words = node.attrs.as<LinearCrossEntropyAttrs>().words;
  ValueId logits = linear(graph, node.name + ".logits", node.inputs[0], node.inputs[1],
                          node.inputs.size() == 5 ? node.inputs[4] : kNoValue);
  if (words > 0) logits = slice(graph, node.name + ".words", logits, 0, words);
  return {softmax_cross_entropy(graph, node.name + ".loss", logits, node.inputs[2], node.inputs[3])};
}

Cost cost_cross_entropy(const Graph& graph, const Node& node) {
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = 5 * static_cast<double>(graph.type(node.inputs[0]).shape.num_elems());
  return cost;
}

Cost fused_cost(const Graph& graph, const Node& node, int products) {
  Cost cost = elementwise_cost(graph, node, 0);
  const auto rows = static_cast<double>(graph.type(node.inputs[0]).shape.num_rows());
  const Shape& weight = graph.type(node.inputs[1]).shape;
  cost.flops = rows * static_cast<double>(products * 2 * weight.num_elems() + 5 * weight[0]);
  return cost;
}

Cost cost_fused(const Graph& graph, const Node& node) {
  return fused_cost(graph, node, 1);
}
Cost cost_fused_grad(const Graph& graph, const Node& node) {
  return fused_cost(graph, node, 3);
}

// A shard with fewer rows or a smaller vocabulary has chunks of about the same bytes.
Attrs local_linear_cross_entropy(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  auto local = attrs.as<LinearCrossEntropyAttrs>();
  if (strategy.letter == 'v') {
    const std::int64_t words = local.words > 0 ? local.words : call.inputs[1].shape[0];
    local.vocabulary = {true, call.axis, words, call.num_ranks};
    local.chunk_rows *= call.num_ranks;
  } else if (strategy.letter == '.') {
    local.rows = (local.rows + call.num_ranks - 1) / call.num_ranks;
  }
  local.chunk_rows = std::min(local.chunk_rows, local.rows);
  return local;
}

}  // namespace

OpDef softmax_cross_entropy_def() {
  return {.infer = infer_cross_entropy,
          .placement = {.operands = "logits:...v targets:... scale: -> loss:", .cuts = "."},
          .grad = grad_cross_entropy,
          .cost = cost_cross_entropy,
          .loss = true};
}
OpDef softmax_cross_entropy_grad_def() {
  return {.infer = infer_cross_entropy_grad,
          .placement = {.operands = "logits:...v targets:... scale: -> dlogits:...v", .cuts = "."},
          .cost = cost_cross_entropy,
          .in_place = {{0, 0}}};
}
OpDef linear_cross_entropy_def() {
  return {.infer = infer_linear_cross_entropy,
          .placement = {.operands = "x:...d w:vd targets:... scale: bias:v -> loss=v:",
                        .cuts = "v.",
                        .one_stretch = true,
                        .local_attrs = local_linear_cross_entropy},
          .grad = grad_linear_cross_entropy,
          .cost = cost_fused,
          .loss = true,
          .compose = compose_linear_cross_entropy};
}
OpDef linear_cross_entropy_grad_def() {
  return {.infer = infer_linear_cross_entropy_grad,
          .placement = {.operands = "x:...d w:vd targets:... scale: acc^:vd bias:v bias_acc^:v -> "
                                    "loss=v: dx:...d sum^:vd bias_sum^:v",
                        .cuts = "v.",
                        .one_stretch = true,
                        .local_attrs = local_linear_cross_entropy},
          .cost = cost_fused_grad,
          .in_place = {{4, 2, true}, {6, 3, true}}};
}

std::vector<Traffic> cross_entropy_traffic(const Graph& graph, const Node& node) {
  const CutRange& cut = node.attrs.as<LinearCrossEntropyAttrs>().vocabulary;
  if (!cut.cut) return {};
  const ValueType& x = graph.type(node.inputs[0]);
  const std::int64_t bytes =
      cut.num_ranks * x.shape.num_rows() * kRowSummary * dtype_bytes(accumulate_dtype(x.dtype));
  return {{group_of(cut.axis), "all_gather", bytes, gather_bytes(bytes, cut.num_ranks)}};
}

ValueId softmax_cross_entropy(Graph& graph, std::string name, ValueId logits, ValueId targets,
                              ValueId loss_scale) {
  return emit(graph, Op::softmax_cross_entropy, Phase::forward, std::move(name), {},
              {logits, targets, loss_scale})[0];
}

ValueId linear_cross_entropy(Graph& graph, std::string name, ValueId x, const OutputHead& head,
                             ValueId targets, ValueId loss_scale) {
  const Shape& weight = graph.type(head.weight).shape;
  // A weight without dims has no vocabulary; the shape rule says so.
  const std::int64_t rows = graph.type(x).shape.num_rows(), vocab = weight.rank() == 0 ? 1 : weight[0];
  std::vector<ValueId> inputs = {x, head.weight, targets, loss_scale};
  if (head.bias != kNoValue) inputs.push_back(head.bias);
  const LinearCrossEntropyAttrs attrs{choose_chunk_rows(rows, vocab), rows, head.words};
  return emit(graph, Op::linear_cross_entropy, Phase::forward, std::move(name), attrs, std::move(inputs))[0];
}

}  // namespace tessera
