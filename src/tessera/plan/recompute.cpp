#include "tessera/plan/recompute.h"

#include <vector>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

// Attention's scores are never stored, but its output is; the rest is as cheap as reading it back.
constexpr Op kSelective[] = {Op::attention, Op::rms_norm, Op::layer_norm, Op::silu, Op::gelu, Op::swiglu};

Op parse_op(std::string_view name, std::string_view key) {
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (op_name(op) == name && op_def(op).grad != nullptr && !op_def(op).loss) return op;
  }
  fail("{}: found '{}', expected none, selective, full, or op names such as attention,rms_norm,swiglu", key,
       name);
}

// Copies a graph node by node, and lets backward nodes read clones of forward values.
class Rewriter {
 public:
  Rewriter(const Graph& from, const Recompute& mode)
      : from_(from),
        mode_(mode),
        num_layers_(from.num_layers()),
        kept_(static_cast<std::size_t>(from.num_values()), kNoValue),
        again_(static_cast<std::size_t>(from.num_values()), kNoValue) {}

  Graph run() {
    // Inputs first, in order, wherever they were added.
    for (ValueId v = 0; v < from_.num_values(); ++v) {
      const Value& value = from_.value(v);
      if (value.producer == kNoNode)
        at(kept_, v) = to_.add_input(value.name, value.type, value.role, value.chunk);
    }
    for (const Node& node : from_.nodes()) copy(node);
    for (const StateUpdate& u : from_.state_updates())
      to_.add_state_update(at(kept_, u.before), at(kept_, u.after));
    for (const Output& output : from_.outputs()) to_.mark_output(output.name, at(kept_, output.value));
    return std::move(to_);
  }

 private:
  static ValueId& at(std::vector<ValueId>& ids, ValueId v) { return ids[static_cast<std::size_t>(v)]; }

  // Of a full layer everything is made again, of a listed op its first output: row statistics are small. What
  // enters a layer is kept, also where it is a norm (BERT): the layer before may be on another stage.
  bool is_recomputed(const Node& producer, ValueId v, std::int32_t reader_layer) const {
    if (producer.phase != Phase::forward || producer.layer != reader_layer) return false;
    const bool in_layer = producer.layer >= 0 && producer.layer < num_layers_;
    return (mode_.full && in_layer) || (mode_.ops.contains(producer.op) && producer.outputs[0] == v);
  }

  ValueId read(ValueId v, Phase phase, std::int32_t reader_layer) {
    const Value& value = from_.value(v);
    if (phase != Phase::backward || value.producer == kNoNode) return at(kept_, v);
    const Node producer = from_.node(value.producer);
    if (!is_recomputed(producer, v, reader_layer)) return at(kept_, v);
    if (at(again_, v) == kNoValue) {
      const std::vector<ValueId> clones = add(producer, Phase::backward, producer.name + ".again");
      for (std::size_t i = 0; i < clones.size(); ++i) at(again_, producer.outputs[i]) = clones[i];
    }
    return at(again_, v);
  }

  std::vector<ValueId> add(const Node& node, Phase phase, std::string name) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(read(input, phase, node.layer));
    std::vector<ValueType> types;
    for (ValueId output : node.outputs) types.push_back(from_.type(output));
    to_.set_layer(node.layer);
    return to_.add_node(node.op, phase, std::move(name), node.attrs, std::move(inputs), types);
  }

  void copy(const Node& node) {
    const std::vector<ValueId> outputs = add(node, node.phase, node.name);
    for (std::size_t i = 0; i < outputs.size(); ++i) at(kept_, node.outputs[i]) = outputs[i];
  }

  const Graph& from_;
  const Recompute& mode_;
  const std::int32_t num_layers_;
  Graph to_;
  std::vector<ValueId> kept_;   // new id of an old value
  std::vector<ValueId> again_;  // new id of its clone in backward
};

}  // namespace

Recompute parse_recompute(std::string_view text, std::string_view key) {
  if (text == "none") return {};
  if (text == "full") return {.full = true};
  if (text == "selective") return {.ops = {std::begin(kSelective), std::end(kSelective)}};
  Recompute mode;
  do {
    const std::size_t end = std::min(text.find(','), text.size());
    mode.ops.insert(parse_op(text.substr(0, end), key));
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return mode;
}

Graph apply_recompute(const Graph& graph, const Recompute& mode) {
  return mode.none() ? graph : Rewriter(graph, mode).run();
}

}  // namespace tessera
