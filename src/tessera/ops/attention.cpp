#include "tessera/ops/attention.h"

#include "tessera/ops/elementwise.h"
#include "tessera/ops/matmul.h"
#include "tessera/ops/slice.h"
#include "tessera/ops/softmax.h"

namespace tessera {
namespace {

void check_qkv(const InferCall& call, std::size_t input) {
  const auto& attrs = call.attrs.as<AttentionAttrs>();
  call.check_floating(input);
  call.check(attrs.heads.valid(), "{} query heads cannot share {} key heads", attrs.heads.heads,
             attrs.heads.kv_heads);
  const Shape& qkv = call.shape(input);
  call.check(qkv.rank() == 3 && qkv[2] == attrs.heads.qkv_columns(), "qkv has shape {}, expected [B, T, {}]",
             qkv.text(), attrs.heads.qkv_columns());
}

// The optional operand behind the others.
void check_key_counts(const InferCall& call, std::size_t input, std::size_t qkv) {
  if (call.inputs.size() <= input) return;
  call.check_dtype(input, DType::i32);
  call.check_shape(input, Shape{call.shape(qkv)[0], 1});
}

ValueType out_type(const ValueType& qkv, const HeadLayout& heads) {
  return {qkv.dtype, Shape{qkv.shape[0], qkv.shape[1], heads.out_columns()}};
}

ValueType lse_type(const ValueType& qkv, const HeadLayout& heads) {
  return {accumulate_dtype(qkv.dtype), Shape{qkv.shape[0], heads.heads, qkv.shape[1]}};
}

std::vector<ValueType> infer_attention(const InferCall& call) {
  call.check_num_inputs(1, 2);
  check_qkv(call, 0);
  check_key_counts(call, 1, 0);
  const HeadLayout& heads = call.attrs.as<AttentionAttrs>().heads;
  return {out_type(call.inputs[0], heads), lse_type(call.inputs[0], heads)};
}

void grad_attention(GradContext& context) {
  const Node node = context.node();
  std::vector<ValueId> inputs = {context.output_grad(0), node.inputs[0], node.outputs[0], node.outputs[1]};
  if (node.inputs.size() == 2) inputs.push_back(node.inputs[1]);
  context.set_input_grad(0, context.emit(Op::attention_grad, node.attrs, std::move(inputs))[0]);
}

// dout, qkv, out, lse[, key counts] -> dqkv
std::vector<ValueType> infer_attention_grad(const InferCall& call) {
  call.check_num_inputs(4, 5);
  check_qkv(call, 1);
  check_key_counts(call, 4, 1);
  const HeadLayout& heads = call.attrs.as<AttentionAttrs>().heads;
  const ValueType out = out_type(call.inputs[1], heads);
  call.check(call.inputs[0] == out && call.inputs[2] == out, "output is {} and its gradient {}, expected {}",
             call.inputs[2].text(), call.inputs[0].text(), out.text());
  const ValueType lse = lse_type(call.inputs[1], heads);
  call.check(call.inputs[3] == lse, "log-sum-exp is {}, expected {}", call.inputs[3].text(), lse.text());
  return {call.inputs[1]};
}

// Forward: two products of T x T x head_dim per head; backward: five. Causal: the pairs on or below
// the diagonal. Padding is not known here and counts as if it were seen.
Cost attention_cost(const Graph& graph, const Node& node, std::size_t qkv_input, std::int64_t products) {
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  const Shape& qkv = graph.type(node.inputs[qkv_input]).shape;
  const std::int64_t seq_len = qkv[1];
  const std::int64_t pairs = attrs.causal ? seq_len * (seq_len + 1) / 2 : seq_len * seq_len;
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = products * 2 * qkv[0] * attrs.heads.heads * attrs.heads.head_dim * pairs;
  return cost;
}

Cost cost_attention(const Graph& graph, const Node& node) {
  return attention_cost(graph, node, 0, 2);
}
Cost cost_attention_grad(const Graph& graph, const Node& node) {
  return attention_cost(graph, node, 1, 5);
}

// Head by head with plain products and a T x T softmax. No plain op makes a mask of key counts.
std::vector<ValueId> compose_attention(Graph& graph, const Node& node) {
  if (node.inputs.size() == 2) return {};
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  const HeadLayout& heads = attrs.heads;
  const ValueId qkv = node.inputs[0];
  const std::int64_t hd = heads.head_dim, group = heads.heads / heads.kv_heads;
  const ValueType type = graph.type(qkv);
  // One mask per sequence of the batch would be the same [T, T]: `add` lets it lack the batch dim.
  const ValueId mask =
      attrs.causal ? causal_mask(graph, node.name + ".mask", type.dtype, type.shape[1]) : kNoValue;
  std::vector<ValueId> outs;
  for (std::int64_t h = 0; h < heads.heads; ++h) {
    const std::string name = node.name + ".head" + std::to_string(h);
    const std::int64_t kv = h / group;
    const ValueId q = slice(graph, name + ".q", qkv, h * hd, hd);
    const ValueId k = slice(graph, name + ".k", qkv, (heads.heads + kv) * hd, hd);
    const ValueId v = slice(graph, name + ".v", qkv, (heads.heads + heads.kv_heads + kv) * hd, hd);
    ValueId scores = matmul(graph, name + ".qk", q, k, {.transpose_b = true});
    scores = scale(graph, name + ".scaled", scores, attrs.scale);
    if (mask != kNoValue) scores = add(graph, name + ".masked", scores, mask);
    outs.push_back(matmul(graph, name + ".pv", softmax(graph, name + ".softmax", scores), v));
  }
  return {concat(graph, node.name + ".heads", outs), kNoValue};
}

// Equal runs of query heads, with or without their columns, and the key and value heads they read.
std::vector<Block> head_blocks(const PlacementCall& call, bool qkv, bool columns) {
  const HeadLayout& heads = call.node.attrs.as<AttentionAttrs>().heads;
  if (qkv) return qkv_blocks(heads, call);
  return even_cut(columns ? heads.out_columns() : heads.heads, call.num_ranks);
}

// qkv[, key counts] -> out, lse
std::vector<Block> attention_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'h') return {};
  return head_blocks(call, operand == 0, operand == call.inputs.size());
}

// dout, qkv, out, lse[, key counts] -> dqkv
std::vector<Block> attention_grad_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'h') return {};
  return head_blocks(call, operand == 1 || operand == call.inputs.size(), operand != 3);
}

Attrs local_attention(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 'h') return attrs;
  auto local = attrs.as<AttentionAttrs>();
  local.heads = local_heads(local.heads, call);
  return local;
}

}  // namespace

OpDef attention_def() {
  return {.infer = infer_attention,
          .placement = {.operands = "qkv:bth counts:bo -> out:bth lse:bht",
                        .cuts = "bh",
                        .tp_cuts = "h",
                        .blocks = attention_blocks,
                        .local_attrs = local_attention},
          .grad = grad_attention,
          .cost = cost_attention,
          .compose = compose_attention};
}
// The gradient of a shared key head is, on each rank, the sum over that rank's queries: a term.
OpDef attention_grad_def() {
  return {.infer = infer_attention_grad,
          .placement = {.operands = "dout:bth qkv:bth out:bth lse:bht counts:bo -> dqkv^:bth",
                        .cuts = "bh",
                        .tp_cuts = "h",
                        .blocks = attention_grad_blocks,
                        .local_attrs = local_attention},
          .cost = cost_attention_grad};
}

ValueId attention(Graph& graph, std::string name, ValueId qkv, const AttentionAttrs& attrs,
                  ValueId key_counts) {
  std::vector<ValueId> inputs = {qkv};
  if (key_counts != kNoValue) inputs.push_back(key_counts);
  return emit(graph, Op::attention, Phase::forward, std::move(name), attrs, std::move(inputs))[0];
}

}  // namespace tessera
