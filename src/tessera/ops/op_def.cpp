#include "tessera/ops/op_def.h"

#include <array>

namespace tessera {

#define TESSERA_OP(name) OpDef name##_def();
#include "tessera/graph/op_list.def"
#undef TESSERA_OP

const OpDef& op_def(Op op) {
  static const std::array<OpDef, kNumOps> table = {
#define TESSERA_OP(name) name##_def(),
#include "tessera/graph/op_list.def"
#undef TESSERA_OP
  };
  return table[static_cast<std::size_t>(op)];
}

void InferCall::check_num_inputs(std::size_t least, std::size_t most) const {
  check(inputs.size() >= least && inputs.size() <= most, "found {} inputs, expected {} to {}", inputs.size(),
        least, most);
}

void InferCall::check_floating(std::size_t input) const {
  check(dtype(input) != DType::i32, "input {} is {}, expected a floating type", input,
        dtype_name(dtype(input)));
}

void InferCall::check_rank_at_least(std::size_t input, int rank) const {
  check(shape(input).rank() >= rank, "input {} has shape {}, expected at least {} dims", input,
        shape(input).text(), rank);
}

void InferCall::check_same_type(std::size_t a, std::size_t b) const {
  check(inputs[a] == inputs[b], "input {} is {}, input {} is {}: they must be the same", a, inputs[a].text(),
        b, inputs[b].text());
}

void InferCall::check_dtype(std::size_t input, DType wanted) const {
  check(dtype(input) == wanted, "input {} is {}, expected {}", input, dtype_name(dtype(input)),
        dtype_name(wanted));
}

void InferCall::check_shape(std::size_t input, const Shape& wanted) const {
  check(shape(input) == wanted, "input {} has shape {}, expected {}", input, shape(input).text(),
        wanted.text());
}

std::vector<ValueId> GradContext::emit(Op op, Attrs attrs, std::vector<ValueId> inputs,
                                       std::string_view suffix) {
  return tessera::emit(graph(), op, Phase::backward, fmt::format("{}.{}", node().name, suffix),
                       std::move(attrs), std::move(inputs));
}

std::vector<ValueId> emit(Graph& graph, Op op, Phase phase, std::string name, Attrs attrs,
                          std::vector<ValueId> inputs) {
  std::vector<ValueType> types;
  for (ValueId input : inputs) types.push_back(graph.type(input));
  const OpDef& def = op_def(op);
  const std::vector<ValueType> outputs = def.infer({op, name, attrs, types});
  return graph.add_node(op, def.constant ? Phase::init : phase, std::move(name), std::move(attrs),
                        std::move(inputs), outputs);
}

std::vector<InPlace> in_place_pairs(const Node& node) {
  const OpDef& def = op_def(node.op);
  std::vector<InPlace> pairs;
  for (std::size_t i = 0; def.in_place_all && i < node.outputs.size(); ++i) pairs.push_back({i, i, true});
  for (const InPlace& pair : def.in_place) {
    if (pair.input < node.inputs.size() && pair.output < node.outputs.size()) pairs.push_back(pair);
  }
  return pairs;
}

Cost node_cost(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (def.cost) return def.cost(graph, node);
  Cost cost;
  for (ValueId input : node.inputs) cost.bytes += graph.type(input).num_bytes();
  for (ValueId output : node.outputs) cost.bytes += graph.type(output).num_bytes();
  return cost;
}

}  // namespace tessera
