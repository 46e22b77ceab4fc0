#include "tessera/partition/traffic_report.h"

#include <algorithm>
#include <cctype>

#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

// "layers.12.mlp.down" -> "layers.*.mlp.down": numbers between dots are layers, and buckets.
std::string without_numbers(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    const bool starts = digit && i > 0 && name[i - 1] == '.';
    if (!starts) {
      text += name[i];
      continue;
    }
    std::size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    const bool whole_word = end == name.size() || name[end] == '.' || name[end] == ' ' || name[end] == ';';
    text += whole_word ? "*" : name.substr(i, end - i);
    i = end - 1;
  }
  return text;
}

std::string reason(const Node& node) {
  switch (node.op) {
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_grad:
      return "three numbers per token instead of the logits of a cut vocabulary";
    default:
      return without_numbers(node.attrs.as<CollectiveAttrs>().why);
  }
}

// Adds to a line that says the same.
void add(std::vector<TrafficLine>& lines, const TrafficLine& line) {
  const auto same = std::find_if(lines.begin(), lines.end(), [&](const TrafficLine& other) {
    return other.group == line.group && other.kind == line.kind && other.phase == line.phase &&
           other.value == line.value && other.payload == line.payload && other.sent == line.sent;
  });
  if (same == lines.end()) {
    lines.push_back(line);
  } else {
    same->count += line.count;
  }
}

}  // namespace

std::vector<TrafficLine> report_traffic(const Graph& graph, const std::vector<StageMessages>& messages,
                                        int num_micro_batches) {
  std::vector<TrafficLine> lines;
  for (NodeId id : live_nodes(graph)) {
    const Node& node = graph.node(id);
    const bool per_micro_batch = node.phase == Phase::forward || node.phase == Phase::backward;
    for (const Traffic& traffic : node_traffic(graph, node)) {
      const std::string value =
          without_numbers(node.inputs.size() == 1 ? graph.value(node.inputs[0]).name : node.name);
      add(lines, {traffic.group, std::string(traffic.kind), node.phase, value, reason(node),
                  per_micro_batch ? num_micro_batches : 1, traffic.payload, traffic.sent});
    }
  }
  const auto add_sends = [&](const std::vector<ValueId>& values, Phase phase, const char* why) {
    for (ValueId v : values) {
      const std::int64_t bytes = graph.type(v).num_bytes();
      add(lines, {Group::pp, "send", phase, without_numbers(graph.value(v).name), why, num_micro_batches,
                  bytes, bytes});
    }
  };
  for (const StageMessages& chunk : messages) {
    add_sends(chunk.send_activation, Phase::forward, "the next pipeline stage reads it");
    add_sends(chunk.send_gradient, Phase::backward, "the previous pipeline stage reads it");
  }
  return lines;
}

std::int64_t bytes_sent(const std::vector<TrafficLine>& lines, Group group) {
  std::int64_t bytes = 0;
  for (const TrafficLine& line : lines) bytes += line.group == group ? line.sent_per_step() : 0;
  return bytes;
}

}  // namespace tessera
