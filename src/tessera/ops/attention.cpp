#include "tessera/ops/attention.h"

#include "tessera/ops/dropout_add.h"
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

// The operands behind the first `required`.
void check_options(const InferCall& call, std::size_t required, std::size_t qkv) {
  call.check_num_inputs(required, required + 2);
  const auto& attrs = call.attrs.as<AttentionAttrs>();
  // Kernels look for the largest score before they scale, and hide keys by a score of -inf.
  call.check(attrs.scale > 0, "scale is {}, expected more than 0", attrs.scale);
  call.check(attrs.dropout >= 0 && attrs.dropout < 1, "dropout is {}, expected 0 <= dropout < 1",
             attrs.dropout);
  const std::size_t least = required + (attrs.drops() ? 1 : 0);
  call.check_num_inputs(least, least + 1);
  const AttentionOptions options = attention_options(attrs, call.inputs.size(), required);
  if (options.key_counts != AttentionOptions::kNone) {
    call.check_dtype(options.key_counts, DType::i32);
    call.check_shape(options.key_counts, Shape{call.shape(qkv)[0], 1});
  }
  if (options.dropout_key != AttentionOptions::kNone) {
    const ValueType& key = call.inputs[options.dropout_key];
    call.check(key == kDropoutKeyType, "key is {}, expected {}", key.text(), kDropoutKeyType.text());
  }
}

ValueType out_type(const ValueType& qkv, const HeadLayout& heads) {
  return {qkv.dtype, Shape{qkv.shape[0], qkv.shape[1], heads.out_columns()}};
}

ValueType lse_type(const ValueType& qkv, const HeadLayout& heads) {
  return {accumulate_dtype(qkv.dtype), Shape{qkv.shape[0], heads.heads, qkv.shape[1]}};
}

std::vector<ValueType> infer_attention(const InferCall& call) {
  check_options(call, 1, 0);
  check_qkv(call, 0);
  const HeadLayout& heads = call.attrs.as<AttentionAttrs>().heads;
  return {out_type(call.inputs[0], heads), lse_type(call.inputs[0], heads)};
}

void grad_attention(GradContext& context) {
  const Node node = context.node();
  std::vector<ValueId> inputs = {context.output_grad(0), node.inputs[0], node.outputs[0], node.outputs[1]};
  inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
  context.set_input_grad(0, context.emit(Op::attention_grad, node.attrs, std::move(inputs))[0]);
}

// dout, qkv, out, lse[, key counts][, dropout key] -> dqkv
std::vector<ValueType> infer_attention_grad(const InferCall& call) {
  check_options(call, 4, 1);
  check_qkv(call, 1);
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
Cost attention_cost(const Graph& graph, const Node& node, std::size_t qkv_input, int products) {
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  const Shape& qkv = graph.type(node.inputs[qkv_input]).shape;
  const std::int64_t seq_len = qkv[1];
  const auto pairs = static_cast<double>(attrs.causal ? seq_len * (seq_len + 1) / 2 : seq_len * seq_len);
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = products * 2 * static_cast<double>(qkv[0] * attrs.heads.out_columns()) * pairs;
  return cost;
}

Cost cost_attention(const Graph& graph, const Node& node) {
  return attention_cost(graph, node, 0, 2);
}
Cost cost_attention_grad(const Graph& graph, const Node& node) {
  return attention_cost(graph, node, 1, 5);
}

// Head by head with plain products and a T x T softmax. No plain op makes a mask of key counts or drops by
// head, query and key.
std::vector<ValueId> compose_attention(Graph& graph, const Node& node) {
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  if (node.inputs.size() > 1) return {};
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

// qkv[, key counts][, dropout key] -> out, lse
std::vector<Block> attention_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'h') return {};
  return head_blocks(call, operand == 0, operand == call.inputs.size());
}

// dout, qkv, out, lse[, key counts][, dropout key] -> dqkv
std::vector<Block> attention_grad_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'h') return {};
  return head_blocks(call, operand == 1 || operand == call.inputs.size(), operand != 3);
}

// `required` operands, then the optional ones that are there.
std::string signature_with_options(const PlacementCall& call, std::string required,
                                   std::size_t num_required) {
  const auto& attrs = call.node.attrs.as<AttentionAttrs>();
  const AttentionOptions options = attention_options(attrs, call.inputs.size(), num_required);
  if (options.key_counts != AttentionOptions::kNone) required += " counts:bo";
  if (options.dropout_key != AttentionOptions::kNone) required += " key:s";
  return required;
}

std::string attention_signature(const PlacementCall& call) {
  return signature_with_options(call, "qkv:bth", 1) + " -> out:bth lse:bht";
}
std::string attention_grad_signature(const PlacementCall& call) {
  return signature_with_options(call, "dout:bth qkv:bth out:bth lse:bht", 4) + " -> dqkv^:bth";
}

Attrs local_attention(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  auto local = attrs.as<AttentionAttrs>();
  if (strategy.letter == 'h') {
    if (local.drops()) local.head_range = {true, call.axis, local.heads.heads, call.num_ranks};
    local.heads = local_heads(local.heads, call);
  }
  if (strategy.letter == 'b' && local.drops() && call.axis != Axis::dp) {
    local.batch_range = {true, call.axis, call.inputs[0].shape[0], call.num_ranks};
  }
  return local;
}

}  // namespace

AttentionOptions attention_options(const AttentionAttrs& attrs, std::size_t num_inputs,
                                   std::size_t required) {
  AttentionOptions options;
  const std::size_t before_key = num_inputs - (attrs.drops() ? 1 : 0);
  if (before_key > required) options.key_counts = required;
  if (attrs.drops()) options.dropout_key = before_key;
  return options;
}

OpDef attention_def() {
  return {.infer = infer_attention,
          .placement = {.cuts = "bh",
                        .tp_cuts = "h",
                        .signature = attention_signature,
                        .blocks = attention_blocks,
                        .local_attrs = local_attention},
          .grad = grad_attention,
          .cost = cost_attention,
          .compose = compose_attention};
}
// The gradient of a shared key head is, on each rank, the sum over that rank's queries: a term.
OpDef attention_grad_def() {
  return {.infer = infer_attention_grad,
          .placement = {.cuts = "bh",
                        .tp_cuts = "h",
                        .signature = attention_grad_signature,
                        .blocks = attention_grad_blocks,
                        .local_attrs = local_attention},
          .cost = cost_attention_grad};
}

ValueId attention(Graph& graph, std::string name, ValueId qkv, const AttentionAttrs& attrs,
                  ValueId key_counts, ValueId dropout_key) {
  std::vector<ValueId> inputs = {qkv};
  for (ValueId option : {key_counts, dropout_key}) {
    if (option != kNoValue) inputs.push_back(option);
  }
  return emit(graph, Op::attention, Phase::forward, std::move(name), attrs, std::move(inputs))[0];
}

}  // namespace tessera
