// run_node: one node on one rank of a device, on tensors given as doubles. Used by the tests of placement
// rules and of collectives.
#pragma once

#include <cstring>
#include <vector>

#include "backend_cpu/host_tensor.h"
#include "tessera/ops/op_def.h"
#include "tessera/runtime/device.h"

namespace tessera {

using Values = std::vector<double>;

// Outputs start as NaNs, unless they are written over their input.
inline std::vector<Values> run_node(Device& device, const Graph& graph, const Node& node,
                                    const std::vector<Values>& inputs, const RankGroups* ranks) {
  std::vector<cpu::HostTensor> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i) in.emplace_back(graph.type(node.inputs[i]), inputs[i]);
  for (ValueId v : node.outputs) out.emplace_back(graph.type(v), std::byte{0xff});
  std::vector<TensorView> in_views, out_views;
  for (cpu::HostTensor& tensor : in) in_views.push_back(tensor.view());
  for (cpu::HostTensor& tensor : out) out_views.push_back(tensor.view());
  for (const InPlace& pair : in_place_pairs(node)) {
    if (pair.always) out_views[pair.output].data = in_views[pair.input].data;
  }
  std::vector<std::byte> workspace(static_cast<std::size_t>(device.workspace_bytes(graph, node)));
  device.run(node.op, {in_views, out_views, &node.attrs, workspace, ranks});
  std::vector<Values> values;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::memcpy(out[i].bytes.data(), out_views[i].data, out[i].bytes.size());
    values.push_back(out[i].values());
  }
  return values;
}

}  // namespace tessera
