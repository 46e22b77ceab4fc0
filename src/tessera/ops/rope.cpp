#include "tessera/ops/rope.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_rope_table(const InferCall& call) {
  call.check_num_inputs(0, 0);
  const auto& attrs = call.attrs.as<RopeTableAttrs>();
  call.check(attrs.seq_len >= 1, "sequence length is {}, expected at least 1", attrs.seq_len);
  call.check(attrs.rotary_dim >= 2 && attrs.rotary_dim % 2 == 0, "rotary dim is {}, expected an even number",
             attrs.rotary_dim);
  call.check(attrs.theta > 0, "theta is {}, expected a positive number", attrs.theta);
  return {{accumulate_dtype(attrs.dtype), Shape{attrs.seq_len, attrs.rotary_dim / 2, 2}}};
}

std::vector<ValueType> infer_rope(const InferCall& call) {
  call.check_num_inputs(2, 3);
  call.check_floating(0);
  const auto& attrs = call.attrs.as<RopeAttrs>();
  const bool continues = call.inputs.size() == 3;
  const Shape &qkv = call.shape(0), &table = call.shape(1);
  call.check(attrs.heads.valid(), "{} query heads cannot share {} key heads", attrs.heads.heads,
             attrs.heads.kv_heads);
  call.check(qkv.rank() == 3 && qkv[2] == attrs.heads.qkv_columns(),
             "input has shape {}, expected [B, T, {}]", qkv.text(), attrs.heads.qkv_columns());
  call.check_dtype(1, accumulate_dtype(call.dtype(0)));
  const bool fits = table.rank() == 3 && (continues || table[0] == qkv[1]);
  call.check(fits && 2 * table[1] <= attrs.heads.head_dim && table[2] == 2,
             "table has shape {}, expected [{}, at most {}, 2]", table.text(), qkv[1],
             attrs.heads.head_dim / 2);
  if (continues) {
    call.check_dtype(2, DType::i32);
    call.check_shape(2, Shape{1});
  }
  return {call.inputs[0]};
}

void grad_rope(GradContext& context) {
  RopeAttrs attrs = context.node().attrs.as<RopeAttrs>();
  attrs.inverse = !attrs.inverse;
  std::vector<ValueId> inputs = context.node().inputs;
  inputs[0] = context.output_grad(0);
  context.set_input_grad(0, context.emit(Op::rope, attrs, std::move(inputs))[0]);
}

Cost cost_rope(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 3);
}

std::vector<Block> rope_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'h' || operand == 1) return {};
  return qkv_blocks(call.node.attrs.as<RopeAttrs>().heads, call);
}

Attrs local_rope(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 'h') return attrs;
  auto local = attrs.as<RopeAttrs>();
  local.heads = local_heads(local.heads, call);
  return local;
}

}  // namespace

OpDef rope_table_def() {
  return {.infer = infer_rope_table, .constant = true};
}
OpDef rope_def() {
  return {.infer = infer_rope,
          .placement = {.operands = "qkv:bth table:prc first:s -> y:bth",
                        .cuts = "bh",
                        .tp_cuts = "h",
                        .blocks = rope_blocks,
                        .local_attrs = local_rope},
          .grad = grad_rope,
          .cost = cost_rope,
          .in_place = {{0, 0}}};
}

ValueId rope_table(Graph& graph, std::string name, const RopeTableAttrs& attrs) {
  return emit(graph, Op::rope_table, Phase::init, std::move(name), attrs, {})[0];
}

ValueId rope(Graph& graph, std::string name, ValueId qkv, ValueId table, const HeadLayout& heads,
             ValueId first) {
  std::vector<ValueId> inputs = {qkv, table};
  if (first != kNoValue) inputs.push_back(first);
  return emit(graph, Op::rope, Phase::forward, std::move(name), RopeAttrs{heads, false},
              std::move(inputs))[0];
}

}  // namespace tessera
