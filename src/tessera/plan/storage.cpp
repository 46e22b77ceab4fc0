#include "tessera/plan/storage.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

// When a value is written and last read. Steps count from 0 in each program.
struct Use {
  Phase written = Phase::init;
  Phase last_phase = Phase::init;  // the last program that reads it
  std::int32_t chunk = 0;          // whose programs these are
  std::int32_t first = 0;          // step that writes it
  std::int32_t last = 0;           // last step that reads it, in last_phase
  bool live = false;
};

// The program that a value from another pipeline stage arrives right before, whether or not that program
// reads it; nothing for what does not come from one.
std::optional<Phase> arrives_before(Role role) {
  if (role == Role::received_activation) return Phase::forward;
  if (role == Role::received_gradient) return Phase::backward;
  return std::nullopt;
}

// f(program, its steps) in the order in which they run for one micro-batch.
template <class F>
void for_each_program(const Plan& plan, F&& f) {
  for (int p = 0; p < kNumPhases; ++p) {
    for (std::int32_t chunk = 0; chunk < plan.num_chunks(); ++chunk) {
      f(ProgramId{static_cast<Phase>(p), chunk}, plan.program(static_cast<Phase>(p), chunk));
    }
  }
}

std::vector<Use> find_uses(const Graph& graph, const Plan& programs) {
  std::vector<Use> uses(static_cast<std::size_t>(graph.num_values()));
  for (std::size_t v = 0; v < uses.size(); ++v) {
    uses[v].written = arrives_before(graph.values()[v].role).value_or(Phase::init);
    uses[v].chunk = graph.values()[v].chunk;
  }
  for_each_program(programs, [&](ProgramId program, const std::vector<Step>& steps) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Node& node = graph.node(steps[s].node);
      const StepTime time = step_time(steps, s);
      for (ValueId v : node.inputs) {
        Use& use = uses[static_cast<std::size_t>(v)];
        use.live = true;
        use.last_phase = program.phase;
        use.last = time.last;
      }
      for (ValueId v : node.outputs) {
        uses[static_cast<std::size_t>(v)] = {program.phase, program.phase, program.chunk,
                                             time.first,    time.last,     true};
      }
    }
  });
  // A message is sent when its program has ended.
  for (ValueId v : graph.messages()) {
    Use& use = uses[static_cast<std::size_t>(v)];
    if (use.last_phase == use.written)
      use.last = static_cast<std::int32_t>(programs.program(use.written, use.chunk).size());
  }
  return uses;
}

Region region_of(const Graph& graph, ValueId id, const Use& use) {
  const Value& value = graph.value(id);
  if (value.role == Role::batch) return Region::kept;
  // Needed by the program it arrives for alone: it may lie among that program's temporaries. Otherwise it
  // stays in its slot.
  if (arrives_before(value.role))
    return use.live && use.written == use.last_phase ? Region::temporary : Region::kept;
  if (value.role != Role::computed || use.written == Phase::init) return Region::persistent;
  if (use.last_phase == use.written) return Region::temporary;
  return use.written == Phase::forward && use.last_phase == Phase::backward ? Region::kept
                                                                            : Region::persistent;
}

class StorageAssigner {
 public:
  StorageAssigner(const Graph& graph, const Plan& programs, const PlanOptions& options)
      : graph_(graph), programs_(programs), options_(options), uses_(find_uses(graph, programs)) {
    map_.of_value.assign(uses_.size(), -1);
    is_output_.assign(uses_.size(), false);
    for (const Output& output : graph.outputs()) is_output_[index(output.value)] = true;
  }

  StorageMap run() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      // Inputs exist whether or not a program reads them: a checkpoint may.
      if (graph_.value(id).producer == kNoNode) add_storage(id);
    }
    for_each_program(programs_, [&](ProgramId program, const std::vector<Step>& steps) {
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const Node& node = graph_.node(steps[s].node);
        for (const InPlace& pair : in_place_pairs(node)) {
          const ValueId input = node.inputs[pair.input], output = node.outputs[pair.output];
          if (pair.always || may_overwrite(input, output, program, static_cast<std::int32_t>(s)))
            share(input, output);
        }
        for (ValueId output : node.outputs) {
          if (map_.of_value[index(output)] < 0) add_storage(output);
        }
      }
    });
    return std::move(map_);
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  Storage& storage_of(ValueId id) {
    return map_.storages[static_cast<std::size_t>(map_.of_value[index(id)])];
  }

  // The host reads outputs after the program, when its temporaries are gone. One that backward reads as
  // well stays with its micro-batch: the next slot's forward would overwrite it anywhere else.
  Region home_of(ValueId id) const {
    const Role role = graph_.value(id).role;
    if (options_.external_parameters && role == Role::parameter) return Region::external;
    if (options_.external_caches && role == Role::cache) return Region::external;
    const Region region = region_of(graph_, id, uses_[index(id)]);
    return is_output_[index(id)] && region == Region::temporary ? Region::persistent : region;
  }

  void add_storage(ValueId id) {
    const Use& use = uses_[index(id)];
    map_.of_value[index(id)] = static_cast<std::int32_t>(map_.storages.size());
    map_.storages.push_back(
        {home_of(id), graph_.type(id).num_bytes(), {use.written, use.chunk}, use.first, use.last});
  }

  // The optional case: the input must be a temporary that dies here, so that nobody misses it.
  bool may_overwrite(ValueId input, ValueId output, ProgramId program, std::int32_t step) {
    const Storage& storage = storage_of(input);
    const Use& use = uses_[index(input)];
    return options_.reuse_memory && storage.region == Region::temporary && storage.program == program &&
           use.last_phase == program.phase && use.last == step && storage.last <= step &&
           storage.bytes == graph_.type(output).num_bytes() && home_of(output) != Region::persistent;
  }

  void share(ValueId input, ValueId output) {
    map_.of_value[index(output)] = map_.of_value[index(input)];
    Storage& storage = storage_of(input);
    if (storage.region != Region::temporary) return;
    storage.region = home_of(output);
    storage.last = std::max(storage.last, uses_[index(output)].last);
  }

  const Graph& graph_;
  const Plan& programs_;
  const PlanOptions& options_;
  const std::vector<Use> uses_;
  std::vector<bool> is_output_;
  StorageMap map_;
};

}  // namespace

StepTime step_time(const std::vector<Step>& steps, std::size_t step) {
  const auto at = static_cast<std::int32_t>(step);
  const bool with_next = step + 1 < steps.size() && steps[step + 1].fused;
  return {steps[step].fused ? at - 1 : at, with_next ? at + 1 : at};
}

StorageMap assign_storage(const Graph& graph, const Plan& programs, const PlanOptions& options) {
  return StorageAssigner(graph, programs, options).run();
}

}  // namespace tessera
