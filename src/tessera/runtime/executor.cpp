#include "tessera/runtime/executor.h"

#include <algorithm>

#include "tessera/ops/collectives.h"
#include "tessera/runtime/in_flight.h"

namespace tessera {
namespace {

// Of calls: fewer are given to a device as quickly as a captured piece of work.
constexpr std::size_t kFewestCaptured = 3;

}  // namespace

Executor::Executor(Graph graph, Plan plan, Device& device, const Executor* weights_of,
                   const RankGroups* ranks, const Executor* scratch_of)
    : graph_(std::move(graph)),
      plan_(std::move(plan)),
      device_(device),
      weights_of_(weights_of),
      borrowed_bytes_(scratch_of && plan_.scratch_bytes() <= scratch_of->plan_.scratch_bytes()
                          ? plan_.scratch_bytes()
                          : 0),
      ranks_(ranks),
      arena_(device.allocate(allocated_bytes())),
      scratch_(borrowed_bytes_ > 0 ? scratch_of->scratch_ : arena_->data() + plan_.persistent_bytes) {
  for (const Chunk& chunk : plan_.chunks) {
    auto& programs = programs_.emplace_back();
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (int slot = 0; slot < chunk.num_slots; ++slot) programs[p].push_back(bind(chunk.programs[p], slot));
    }
  }
  bind_early_orders();
  run(Phase::init);
}

std::byte* Executor::address(const Location& location, int slot) const {
  switch (location.region) {
    case Region::persistent:
      return arena_->data() + location.offset;
    case Region::kept:
      return scratch_ + plan_.kept_bytes_before(location.chunk) +
             slot * plan_.chunks[static_cast<std::size_t>(location.chunk)].kept_bytes + location.offset;
    case Region::temporary:
      return scratch_ + plan_.kept_bytes() + location.offset;
    case Region::external:
    case Region::none:
      break;
  }
  TS_ASSERT(!"the value has a place");
  return nullptr;
}

Executor::BoundCall Executor::bind(const Step& step, int slot) const {
  const Node& node = graph_.node(step.node);
  BoundCall call{.op = node.op, .attrs = &node.attrs, .fused = step.fused};
  for (ValueId v : node.inputs) call.inputs.push_back(view(v, slot));
  for (ValueId v : node.outputs) call.outputs.push_back(view(v, slot));
  if (step.workspace_bytes > 0) {
    call.workspace = {address({Region::temporary, step.workspace_offset}, slot),
                      static_cast<std::size_t>(step.workspace_bytes)};
  }
  for (ValueId v : step.first_additions) call.first_additions.push_back(view(v, slot));
  // A kernel starts all of its sums or none.
  const std::vector<InPlace> pairs = in_place_pairs(node);
  const auto num_sums = std::ranges::count_if(pairs, [](const InPlace& pair) { return pair.always; });
  call.starts_sums = device_.can_start_sums(node.op) && std::ssize(call.first_additions) == num_sums;
  call.meets_ranks = !node_traffic(graph_, node).empty();
  return call;
}

Executor::BoundProgram Executor::bind(const std::vector<Step>& steps, int slot) const {
  BoundProgram program;
  for (const Step& step : steps) {
    program.calls.push_back(bind(step, slot));
    program.has_first_additions |= !step.first_additions.empty();
  }
  return program;
}

KernelCall Executor::kernel_call(const BoundCall& call, bool starting) const {
  const bool starts_sums = starting && call.starts_sums && !call.first_additions.empty();
  return {call.inputs, call.outputs, call.attrs, call.workspace, ranks_, starts_sums};
}

// The update program is chunk 0's, on slot 0.
void Executor::bind_early_orders() {
  const auto phase = [](Phase p) { return static_cast<std::size_t>(p); };
  BoundProgram& update = programs_[0][phase(Phase::update)][0];
  std::vector<bool> early(update.calls.size(), false);
  for (std::size_t c = 0; c < programs_.size(); ++c) {
    for (const EarlyCollective& collective : plan_.chunks[c].early) {
      early[static_cast<std::size_t>(collective.step)] = reduces_early_ = true;
    }
    for (auto& slots : programs_[c]) {
      for (BoundProgram& program : slots) {
        for (const BoundCall& call : program.calls) program.order.push_back(&call);
        program.early_order = program.order;
      }
    }
    for (BoundProgram& backward : programs_[c][phase(Phase::backward)]) {
      std::int32_t inserted = 0;
      for (const EarlyCollective& collective : plan_.chunks[c].early) {
        const std::int32_t at = collective.after + 1 + inserted++;
        backward.early_order.insert(backward.early_order.begin() + at,
                                    &update.calls[static_cast<std::size_t>(collective.step)]);
      }
    }
  }
  std::erase_if(update.early_order, [&](const BoundCall* call) {
    return early[static_cast<std::size_t>(call - update.calls.data())];
  });
}

void Executor::run(Phase phase, const ProgramRun& how) {
  auto& programs = programs_[static_cast<std::size_t>(how.chunk)];
  BoundProgram& program = programs[static_cast<std::size_t>(phase)][static_cast<std::size_t>(how.slot)];
  if (phase == Phase::backward && how.update_follows) reduced_early_ = reduces_early_;
  const bool early = reduced_early_ && (phase == Phase::update || how.update_follows);
  if (phase == Phase::update) reduced_early_ = false;
  const Calls calls = early ? program.early_order : program.order;
  const bool starting = how.first_micro_batch && program.has_first_additions;
  if (how.times) return run_calls(calls, starting, how.times);
  std::vector<Part>& parts = program.parts[starting][early];
  for (const Part& part : parts) part.captured ? part.captured->run() : run_calls(part.calls, starting);
  if (!parts.empty()) return;
  run_calls(calls, starting);
  // Kernels are chosen now, and all of it can be noted at once: later steps allocate nothing. The init
  // program does not run again.
  if (phase == Phase::init || !device_.captures()) return;
  parts = cut_into_parts(phase, calls);
  capture(parts, starting);
}

// Ranks meet in the host, which a capture cannot note. And what is captured waits for all that it touches
// before it begins: a part ends where the program would wait for a collective that other work may run beside.
std::vector<Executor::Part> Executor::cut_into_parts(Phase phase, Calls calls) const {
  InFlight under_way;
  const auto start = [&](const BoundCall& call) {
    under_way.start(byte_ranges(call.inputs), byte_ranges(call.outputs, call.workspace));
  };
  const auto waits = [&](const BoundCall& call) {
    return under_way.wait_before(byte_ranges(call.inputs), byte_ranges(call.outputs, call.workspace)) >= 0;
  };
  if (phase == Phase::forward) {  // while the update's last collectives still gather weights
    const Executor& training = weights_of_ ? *weights_of_ : *this;
    for (const BoundCall& call : training.programs_[0][static_cast<std::size_t>(Phase::update)][0].calls) {
      if (call.meets_ranks) {
        start(call);
      } else {
        waits(call);
      }
    }
  }
  std::vector<Part> parts;
  std::size_t begin = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > begin) parts.push_back({calls.subspan(begin, end - begin), nullptr});
    begin = end;
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i]->meets_ranks) {
      end_part(i);
      start(*calls[i]);
      end_part(i + 1);
    } else if (waits(*calls[i])) {
      end_part(calls[i]->fused ? i - 1 : i);
    }
  }
  end_part(calls.size());
  return parts;
}

void Executor::capture(std::vector<Part>& parts, bool starting) {
  for (Part& part : parts) {
    if (part.calls.size() < kFewestCaptured) continue;
    part.captured = device_.capture([&] { run_calls(part.calls, starting); });
  }
}

void Executor::run_calls(Calls calls, bool starting, OpTimes* times) {
  std::vector<Op> timed;
  if (times) device_.mark(0);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const BoundCall& call = *calls[i];
    if (starting && !call.starts_sums) {
      for (const TensorView& sum : call.first_additions) device_.clear(sum);
    }
    if (i + 1 < calls.size() && calls[i + 1]->fused) {
      const BoundCall& second = *calls[++i];
      device_.run_fused(call.op, kernel_call(call, starting), second.op, kernel_call(second, starting));
    } else {
      device_.run(call.op, kernel_call(call, starting));
    }
    // A device may run neighbours of one op together, so they have one time.
    if (!times || (i + 1 < calls.size() && calls[i + 1]->op == call.op)) continue;
    timed.push_back(call.op);
    device_.mark(timed.size());
  }
  if (!times) return;
  device_.synchronize();
  for (std::size_t i = 0; i < timed.size(); ++i) {
    times->seconds[static_cast<std::size_t>(timed[i])] += device_.seconds_between(i, i + 1);
  }
}

TensorView Executor::view(ValueId value, int slot) const {
  const ValueType& type = graph_.type(value);
  if (plan_.locations[static_cast<std::size_t>(value)].region == Region::external) {
    TS_ASSERT(weights_of_ != nullptr);
    ValueId state = value;  // a cache's next content has no name there
    for (const StateUpdate& update : graph_.state_updates()) {
      if (update.after == value) state = update.before;
    }
    const TensorView theirs = weights_of_->input(graph_.value(state).name);
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

void Executor::read_scalar_later(std::string_view output_name, int slot, float& to) const {
  const TensorView from = output(output_name, slot);
  TS_ASSERT(from.num_elems() == 1 && from.dtype == DType::f32);
  device_.download_later(std::as_writable_bytes(std::span(&to, 1)), static_cast<const std::byte*>(from.data));
}

}  // namespace tessera
