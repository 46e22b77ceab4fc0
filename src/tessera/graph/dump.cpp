#include "tessera/graph/dump.h"

#include <fmt/format.h>

namespace tessera {
namespace {

std::string_view phase_colour(Phase phase) {
  switch (phase) {
    case Phase::init:
      return "#eeeeee";
    case Phase::forward:
      return "#d7e8fa";
    case Phase::backward:
      return "#fbe3d0";
    case Phase::update:
      return "#dcf2dc";
  }
  return "white";
}

}  // namespace

std::string dump_text(const Graph& graph) {
  std::string text;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    text += fmt::format("{:<9} {} : {}\n", role_name(value.role), value.name, value.type.text());
  }
  for (const Node& node : graph.nodes()) {
    text += fmt::format("{:<9} {} = {}(", phase_name(node.phase), node.name, op_name(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      text += fmt::format("{}{}", i ? ", " : "", graph.value(node.inputs[i]).name);
    }
    text += ")";
    if (!node.attrs.text().empty()) text += " " + node.attrs.text();
    text += " ->";
    for (ValueId output : node.outputs) text += " " + graph.type(output).text();
    text += "\n";
  }
  for (const StateUpdate& update : graph.state_updates()) {
    text +=
        fmt::format("state     {} <- {}\n", graph.value(update.before).name, graph.value(update.after).name);
  }
  for (const Output& output : graph.outputs()) {
    text += fmt::format("output    {} = {}\n", output.name, graph.value(output.value).name);
  }
  return text;
}

std::string dump_dot(const Graph& graph) {
  std::string text = "digraph tessera {\n  rankdir=TB; node [fontname=\"sans-serif\", fontsize=10];\n";
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const Value& value = graph.value(id);
    if (value.producer != kNoNode) continue;
    text += fmt::format("  v{} [shape=ellipse, label=\"{}\\n{}\"];\n", id, value.name, value.type.text());
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    text += fmt::format("  n{} [shape=box, style=filled, fillcolor=\"{}\", label=\"{}\\n{}\"];\n", id,
                        phase_colour(node.phase), op_name(node.op), node.name);
    for (ValueId input : node.inputs) {
      const Value& value = graph.value(input);
      const std::string from =
          value.producer == kNoNode ? fmt::format("v{}", input) : fmt::format("n{}", value.producer);
      text += fmt::format("  {} -> n{} [label=\"{}\", fontsize=8];\n", from, id, value.type.text());
    }
  }
  return text + "}\n";
}

}  // namespace tessera
