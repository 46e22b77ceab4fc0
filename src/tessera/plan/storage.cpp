#include "tessera/plan/storage.h"

#include <algorithm>
#include <array>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

// When a value is written and last read. Steps count from 0 in each program.
struct Use {
  Phase written = Phase::init;
  Phase last_phase = Phase::init;  // the last program that reads it
  std::int32_t first = 0;          // step that writes it
  std::int32_t last = 0;           // last step that reads it, in last_phase
  bool live = false;
};

std::vector<Use> find_uses(const Graph& graph, const Plan& programs) {
  std::vector<Use> uses(static_cast<std::size_t>(graph.num_values()));
  for (int p = 0; p < kNumPhases; ++p) {
    const auto phase = static_cast<Phase>(p);
    const std::vector<Step>& steps = programs.program(phase);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Node& node = graph.node(steps[s].node);
      const auto step = static_cast<std::int32_t>(s);
      for (ValueId v : node.inputs) {
        Use& use = uses[static_cast<std::size_t>(v)];
        use.live = true;
        use.last_phase = phase;
        use.last = step;
      }
      for (ValueId v : node.outputs) uses[static_cast<std::size_t>(v)] = {phase, phase, step, step, true};
    }
  }
  return uses;
}

Region region_of(const Graph& graph, ValueId id, const Use& use) {
  const Value& value = graph.value(id);
  if (value.role == Role::batch) return Region::kept;
  if (value.role != Role::computed || use.written == Phase::init) return Region::persistent;
  if (use.last_phase == use.written) return Region::temporary;
  return use.written == Phase::forward && use.last_phase == Phase::backward ? Region::kept : Region::persistent;
}

}  // namespace

StorageMap assign_storage(const Graph& graph, const Plan& programs, const PlanOptions& options) {
  const std::vector<Use> uses = find_uses(graph, programs);
  StorageMap map;
  map.of_value.assign(static_cast<std::size_t>(graph.num_values()), -1);
  std::vector<bool> is_output(map.of_value.size(), false);
  for (const Output& output : graph.outputs()) is_output[static_cast<std::size_t>(output.value)] = true;

  // The host reads outputs after the program, when its temporaries are gone. One that backward reads as
  // well stays with its micro-batch: the next slot's forward would overwrite it anywhere else.
  const auto home_of = [&](ValueId id) {
    const auto v = static_cast<std::size_t>(id);
    const Region region = region_of(graph, id, uses[v]);
    return is_output[v] && region == Region::temporary ? Region::persistent : region;
  };
  const auto own_storage = [&](ValueId id) {
    const auto v = static_cast<std::size_t>(id);
    Region region = home_of(id);
    if (options.external_parameters && graph.value(id).role == Role::parameter) region = Region::external;
    map.of_value[v] = static_cast<std::int32_t>(map.storages.size());
    map.storages.push_back({region, graph.type(id).num_bytes(), uses[v].written, uses[v].first, uses[v].last});
  };
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    // Inputs exist whether or not a program reads them: a checkpoint may.
    if (graph.value(id).producer == kNoNode) own_storage(id);
  }

  // The optional case: the input must be a temporary that dies here, so that nobody misses it.
  const auto may_overwrite = [&](ValueId input, ValueId output, Phase phase, std::int32_t step) {
    const auto in = static_cast<std::size_t>(input), out = static_cast<std::size_t>(output);
    const Storage& storage = map.storages[static_cast<std::size_t>(map.of_value[in])];
    return options.reuse_memory && storage.region == Region::temporary && !is_output[out] && storage.phase == phase &&
           uses[in].last_phase == phase && uses[in].last == step && storage.last <= step &&
           storage.bytes == graph.type(output).num_bytes() &&
           region_of(graph, output, uses[out]) != Region::persistent;
  };

  for (int p = 0; p < kNumPhases; ++p) {
    const auto phase = static_cast<Phase>(p);
    const std::vector<Step>& steps = programs.program(phase);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Node& node = graph.node(steps[s].node);
      for (const InPlace& pair : op_def(node.op).in_place) {
        if (pair.input >= node.inputs.size()) continue;
        const ValueId input = node.inputs[pair.input], output = node.outputs[pair.output];
        if (!pair.always && !may_overwrite(input, output, phase, static_cast<std::int32_t>(s))) continue;
        const std::int32_t shared = map.of_value[static_cast<std::size_t>(input)];
        map.of_value[static_cast<std::size_t>(output)] = shared;
        Storage& storage = map.storages[static_cast<std::size_t>(shared)];
        const Use& use = uses[static_cast<std::size_t>(output)];
        if (storage.region == Region::temporary) {
          storage.region = home_of(output);
          storage.last = std::max(storage.last, use.last);
        }
      }
      for (ValueId output : node.outputs) {
        if (map.of_value[static_cast<std::size_t>(output)] < 0) own_storage(output);
      }
    }
  }
  return map;
}

}  // namespace tessera
