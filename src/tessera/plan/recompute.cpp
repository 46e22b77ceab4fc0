#include "tessera/plan/recompute.h"

#include <vector>

namespace tessera {
namespace {

bool is_cheap(Op op) {
  switch (op) {
    case Op::rms_norm:
    case Op::layer_norm:
    case Op::silu:
    case Op::gelu:
    case Op::swiglu: return true;
    default: return false;
  }
}

// Copies a graph node by node, and lets backward nodes read clones of cheap forward values.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from)
      : from_(from),
        kept_(static_cast<std::size_t>(from.num_values()), kNoValue),
        again_(static_cast<std::size_t>(from.num_values()), kNoValue) {}

  Graph run() {
    // Inputs first, in order, wherever they were added.
    for (ValueId v = 0; v < from_.num_values(); ++v) {
      const Value& value = from_.value(v);
      if (value.producer == kNoNode) at(kept_, v) = to_.add_input(value.name, value.type, value.role);
    }
    for (const Node& node : from_.nodes()) copy(node);
    for (const StateUpdate& u : from_.state_updates()) to_.add_state_update(at(kept_, u.before), at(kept_, u.after));
    for (const Output& output : from_.outputs()) to_.mark_output(output.name, at(kept_, output.value));
    return std::move(to_);
  }

 private:
  static ValueId& at(std::vector<ValueId>& ids, ValueId v) { return ids[static_cast<std::size_t>(v)]; }

  ValueId read(ValueId v, Phase reader) {
    const Value& value = from_.value(v);
    if (reader != Phase::backward || value.producer == kNoNode) return at(kept_, v);
    const Node producer = from_.node(value.producer);
    // Row statistics (further outputs) are small: they stay kept.
    if (producer.phase != Phase::forward || !is_cheap(producer.op) || producer.outputs[0] != v) return at(kept_, v);
    if (at(again_, v) == kNoValue) {
      at(again_, v) = add(producer, Phase::backward, producer.name + ".again")[0];
    }
    return at(again_, v);
  }

  std::vector<ValueId> add(const Node& node, Phase phase, std::string name) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(read(input, phase));
    std::vector<ValueType> types;
    for (ValueId output : node.outputs) types.push_back(from_.type(output));
    return to_.add_node(node.op, phase, std::move(name), node.attrs, std::move(inputs), types);
  }

  void copy(const Node& node) {
    const std::vector<ValueId> outputs = add(node, node.phase, node.name);
    for (std::size_t i = 0; i < outputs.size(); ++i) at(kept_, node.outputs[i]) = outputs[i];
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> kept_;   // new id of an old value
  std::vector<ValueId> again_;  // new id of its clone in backward
};

}  // namespace

Graph apply_recompute(const Graph& graph, Recompute mode) {
  return mode == Recompute::none ? graph : Rewriter(graph).run();
}

}  // namespace tessera
