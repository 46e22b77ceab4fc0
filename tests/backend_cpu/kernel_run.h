// run_kernel: one kernel on tensors given as doubles, on 1, 2, 3 and 5 threads and both in place and not,
// where the op allows that. All runs must give the same bits; the test compares them with a naive loop.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend_cpu/host_tensor.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/ops/op_def.h"

namespace tessera::cpu {

using Kernel = void (*)(const KernelCall&, Context&);
using WorkspaceBytes = std::int64_t (*)(const Graph&, const Node&);

// One run. Outputs that are not in place start as NaNs, so an element left out is noticed.
inline std::vector<HostTensor> run_once(Kernel kernel, const Graph& graph, const Node& node,
                                        std::vector<HostTensor> inputs, int num_threads, bool in_place,
                                        std::int64_t workspace_bytes) {
  std::vector<HostTensor> outputs;
  std::vector<TensorView> input_views, output_views;
  for (ValueId output : node.outputs) outputs.emplace_back(graph.type(output), std::byte{0xff});
  for (HostTensor& input : inputs) input_views.push_back(input.view());
  for (HostTensor& output : outputs) output_views.push_back(output.view());
  for (const InPlace& pair : in_place_pairs(node)) {
    if ((pair.always || in_place) && pair.input < inputs.size()) {
      output_views[pair.output].data = input_views[pair.input].data;
    }
  }
  std::vector<std::byte> workspace(static_cast<std::size_t>(workspace_bytes), std::byte{0xff});
  ThreadPool pool(num_threads);
  Context context{pool};
  kernel({input_views, output_views, &node.attrs, workspace}, context);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs[i].bytes.data(), output_views[i].data, outputs[i].bytes.size());
  }
  return outputs;
}

inline std::vector<std::vector<double>> run_kernel(Kernel kernel, Op op, const Attrs& attrs,
                                                   const std::vector<HostTensor>& inputs,
                                                   WorkspaceBytes workspace_bytes = nullptr) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(graph.add_input("in" + std::to_string(i), inputs[i].type, Role::batch));
  }
  emit(graph, op, Phase::forward, "node", attrs, ids);
  const Node& node = graph.node(0);
  const std::int64_t scratch = workspace_bytes ? workspace_bytes(graph, node) : 0;
  const std::vector<HostTensor> first = run_once(kernel, graph, node, inputs, 1, false, scratch);
  for (int num_threads : {1, 2, 3, 5}) {
    for (bool in_place : {false, true}) {
      const std::vector<HostTensor> again =
          run_once(kernel, graph, node, inputs, num_threads, in_place, scratch);
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_TRUE(first[i].bytes == again[i].bytes) << op_name(op) << " output " << i << " differs on "
                                                      << num_threads << " threads, in place: " << in_place;
      }
    }
  }
  std::vector<std::vector<double>> values;
  for (const HostTensor& output : first) values.push_back(output.values());
  return values;
}

// |found - wanted| <= (rounding of the type) * (|wanted| + size): `size` is the magnitude of the terms
// that `wanted` is made of. A bf16 result is rounded once, by at most 2^-8 of itself.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& wanted, DType dtype,
                         double size = 1.0) {
  const double relative = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : 1.0 / 256;
  const double absolute = dtype == DType::f64 ? 1e-13 : 2e-6;
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;  // also infinities
    ASSERT_LE(std::abs(found[i] - wanted[i]), relative * std::abs(wanted[i]) + absolute * size)
        << "element " << i << ": found " << found[i] << ", expected " << wanted[i] << " in "
        << dtype_name(dtype);
  }
}

}  // namespace tessera::cpu
