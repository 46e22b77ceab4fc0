#include "tessera/ops/verify.h"

#include <numeric>
#include <vector>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

bool exists(const Graph& graph, ValueId v) {
  return v >= 0 && v < graph.num_values();
}

void verify_inputs(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (ValueId input : node.inputs) {
    TS_CHECK(exists(graph, input), "node {}: input {} does not exist", node.name, input);
    const Value& value = graph.value(input);
    if (value.producer == kNoNode) continue;
    const Node& producer = graph.node(value.producer);
    TS_CHECK(value.producer < id, "node {} reads {} before node {} writes it", node.name, value.name,
             producer.name);
    TS_CHECK(producer.phase <= node.phase,
             "node {} of the {} program reads {}, which the later {} program writes", node.name,
             phase_name(node.phase), value.name, phase_name(producer.phase));
  }
}

void verify_types(const Graph& graph, const Node& node) {
  std::vector<ValueType> inputs;
  for (ValueId input : node.inputs) inputs.push_back(graph.type(input));
  const std::vector<ValueType> outputs = op_def(node.op).infer({node.op, node.name, node.attrs, inputs});
  TS_CHECK(outputs.size() == node.outputs.size(), "node {}: has {} outputs, {} makes {}", node.name,
           node.outputs.size(), op_name(node.op), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueType& found = graph.type(node.outputs[i]);
    TS_CHECK(found == outputs[i], "node {}: output {} is {}, expected {}", node.name, i, found.text(),
             outputs[i].text());
  }
}

void verify_state_updates(const Graph& graph) {
  // Where each value lies by the ops that only work in place: the value it was first written as.
  std::vector<ValueId> place(static_cast<std::size_t>(graph.num_values()));
  std::iota(place.begin(), place.end(), ValueId{0});
  for (const Node& node : graph.nodes()) {
    for (const InPlace& pair : in_place_pairs(node)) {
      if (!pair.always) continue;
      place[static_cast<std::size_t>(node.outputs[pair.output])] =
          place[static_cast<std::size_t>(node.inputs[pair.input])];
    }
  }
  for (const StateUpdate& update : graph.state_updates()) {
    TS_CHECK(exists(graph, update.before) && exists(graph, update.after),
             "state update of value {} by value {}: no such value", update.before, update.after);
    const std::string& name = graph.value(update.before).name;
    TS_CHECK(graph.type(update.before) == graph.type(update.after), "state {} is {}, its update {}", name,
             graph.type(update.before).text(), graph.type(update.after).text());
    TS_CHECK(place[static_cast<std::size_t>(update.after)] == update.before,
             "state {}: its update {} is not written in its place", name, graph.value(update.after).name);
  }
}

}  // namespace

void verify(const Graph& graph) {
  // Which node overwrote a value, if any: reading it afterwards is an error.
  std::vector<NodeId> overwritten_by(static_cast<std::size_t>(graph.num_values()), kNoNode);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    verify_inputs(graph, id);
    verify_types(graph, node);
    for (ValueId input : node.inputs) {
      const NodeId writer = overwritten_by[static_cast<std::size_t>(input)];
      // A later program that reads a state input means what the earlier program left there.
      const bool later_program = writer != kNoNode && (graph.node(writer).phase < node.phase ||
                                                       graph.node(writer).chunk != node.chunk);
      const bool next_content = later_program && graph.value(input).producer == kNoNode;
      TS_CHECK(writer == kNoNode || next_content, "node {} reads {} after node {} has overwritten it",
               node.name, graph.value(input).name, graph.node(writer).name);
    }
    for (const InPlace& pair : in_place_pairs(node)) {
      if (pair.always) overwritten_by[static_cast<std::size_t>(node.inputs[pair.input])] = id;
    }
  }
  // Outputs are read, and messages sent, when the program that makes them has ended.
  const auto check_lasts = [&](ValueId v, const std::string& name) {
    const NodeId writer = overwritten_by[static_cast<std::size_t>(v)], producer = graph.value(v).producer;
    if (writer == kNoNode || producer == kNoNode) return;
    const Node &made = graph.node(producer), &lost = graph.node(writer);
    TS_CHECK(made.phase != lost.phase || made.chunk != lost.chunk, "node {} overwrites {}, made for '{}'",
             lost.name, graph.value(v).name, name);
  };
  for (const Output& output : graph.outputs()) {
    TS_CHECK(exists(graph, output.value), "output '{}' has no value", output.name);
    check_lasts(output.value, output.name);
  }
  for (const ValueId message : graph.messages()) check_lasts(message, "another stage");
  verify_state_updates(graph);
}

}  // namespace tessera
