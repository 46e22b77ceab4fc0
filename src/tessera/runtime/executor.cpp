#include "tessera/runtime/executor.h"

#include <chrono>

namespace tessera {

Executor::Executor(Graph graph, Plan plan, Device& device, const Executor* weights_of,
                   const RankGroups* ranks)
    : graph_(std::move(graph)),
      plan_(std::move(plan)),
      device_(device),
      weights_of_(weights_of),
      arena_(device.allocate(plan_.arena_bytes())),
      ranks_(ranks) {
  for (const Chunk& chunk : plan_.chunks) {
    auto& programs = calls_.emplace_back();
    for (std::size_t p = 0; p < programs.size(); ++p) {
      programs[p].resize(static_cast<std::size_t>(chunk.num_slots));
      for (int slot = 0; slot < chunk.num_slots; ++slot) {
        for (const Step& step : chunk.programs[p])
          programs[p][static_cast<std::size_t>(slot)].push_back(bind(step, slot));
      }
    }
  }
  run(Phase::init);
}

std::byte* Executor::address(const Location& location, int slot) const {
  std::byte* const base = arena_->data();
  switch (location.region) {
    case Region::persistent:
      return base + location.offset;
    case Region::kept:
      return base + plan_.persistent_bytes + plan_.kept_bytes_before(location.chunk) +
             slot * plan_.chunks[static_cast<std::size_t>(location.chunk)].kept_bytes + location.offset;
    case Region::temporary:
      return base + plan_.persistent_bytes + plan_.kept_bytes() + location.offset;
    case Region::external:
    case Region::none:
      break;
  }
  TS_ASSERT(!"the value has a place");
  return nullptr;
}

Executor::BoundCall Executor::bind(const Step& step, int slot) const {
  const Node& node = graph_.node(step.node);
  BoundCall call{.op = node.op, .attrs = &node.attrs};
  for (ValueId v : node.inputs) call.inputs.push_back(view(v, slot));
  for (ValueId v : node.outputs) call.outputs.push_back(view(v, slot));
  if (step.workspace_bytes > 0) {
    call.workspace = {address({Region::temporary, step.workspace_offset}, slot),
                      static_cast<std::size_t>(step.workspace_bytes)};
  }
  return call;
}

void Executor::run(Phase phase, int slot, OpTimes* times, int chunk) {
  using Clock = std::chrono::steady_clock;
  const auto& programs = calls_[static_cast<std::size_t>(chunk)];
  for (const BoundCall& call : programs[static_cast<std::size_t>(phase)][static_cast<std::size_t>(slot)]) {
    const auto start = times ? Clock::now() : Clock::time_point{};
    device_.run(call.op, {call.inputs, call.outputs, call.attrs, call.workspace, ranks_});
    if (times) {
      times->seconds[static_cast<std::size_t>(call.op)] +=
          std::chrono::duration<double>(Clock::now() - start).count();
    }
  }
}

TensorView Executor::view(ValueId value, int slot) const {
  const ValueType& type = graph_.type(value);
  if (plan_.locations[static_cast<std::size_t>(value)].region == Region::external) {
    TS_ASSERT(weights_of_ != nullptr);
    const TensorView theirs = weights_of_->input(graph_.value(value).name);
    TS_ASSERT(theirs.dtype == type.dtype && theirs.shape == type.shape);
    return theirs;
  }
  return {address(plan_.locations[static_cast<std::size_t>(value)], slot), type.dtype, type.shape};
}

TensorView Executor::input(std::string_view name, int slot) const {
  const ValueId value = graph_.find_input(name);
  TS_ASSERT(value != kNoValue);
  return view(value, slot);
}

TensorView Executor::output(std::string_view name, int slot) const {
  const ValueId value = graph_.find_output(name);
  TS_ASSERT(value != kNoValue);
  return view(value, slot);
}

float Executor::read_scalar(std::string_view output_name, int slot) const {
  const TensorView from = output(output_name, slot);
  TS_ASSERT(from.num_elems() == 1);
  double wide = 0;
  float narrow = 0;
  std::byte* const to =
      from.dtype == DType::f64 ? reinterpret_cast<std::byte*>(&wide) : reinterpret_cast<std::byte*>(&narrow);
  device_.download({to, static_cast<std::size_t>(from.num_bytes())},
                   static_cast<const std::byte*>(from.data));
  return from.dtype == DType::f64 ? static_cast<float>(wide) : narrow;
}

}  // namespace tessera
