// Executor: a graph, its plan and the memory it runs in. Allocates one arena when it is made and
// nothing afterwards; every node's operands are bound to addresses once, for every slot.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tessera/plan/plan.h"
#include "tessera/runtime/device.h"

namespace tessera {

// Seconds spent per op, for breakdowns; filled when given to Executor::run. A fused pair counts as its first.
struct OpTimes {
  std::array<double, kNumOps> seconds{};
};

// How to run a program.
struct ProgramRun {
  int slot = 0, chunk = 0;
  bool first_micro_batch = false;  // of a step: a backward program then begins its sums anew
  // The step's last, and the update is next: a backward program then begins to reduce gradients.
  bool update_follows = false;
  OpTimes* times = nullptr;
};

class Executor {
 public:
  // Runs the init program. `device` must outlive the executor, and so must `weights_of`, whose parameters or
  // caches a plan that says so works on, and `scratch_of`, whose kept and temporary values may be lost
  // whenever this one runs: it has none of its own if they fit in there.
  Executor(Graph graph, Plan plan, Device& device, const Executor* weights_of = nullptr,
           const RankGroups* ranks = nullptr, const Executor* scratch_of = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run(Phase phase, const ProgramRun& how = {});

  // Where a value lies; batch inputs and kept activations have a place per slot.
  TensorView view(ValueId value, int slot = 0) const;
  TensorView input(std::string_view name, int slot = 0) const;   // by name; asserts that it exists
  TensorView output(std::string_view name, int slot = 0) const;  // likewise

  template <class T>
  void write(std::string_view input_name, std::span<const T> from, int slot = 0) {
    write(graph_.find_input(input_name), from, slot);
  }
  template <class T>
  void write(ValueId value, std::span<const T> from, int slot = 0) {
    const TensorView to = view(value, slot);
    TS_ASSERT(from.size() == to.as<T>().size());
    device_.upload(static_cast<std::byte*>(to.data), std::as_bytes(from));
  }
  float read_scalar(std::string_view output_name, int slot = 0) const;  // of f32 or f64
  // Without waiting: `to` is written when the device's synchronize() has returned.
  void read_scalar_later(std::string_view output_name, int slot, float& to) const;

  const Graph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  Device& device() const { return device_; }
  // Of its own: the plan's arena, unless the scratch is another's.
  std::int64_t allocated_bytes() const { return plan_.arena_bytes() - borrowed_bytes_; }

 private:
  struct BoundCall {
    Op op{};
    std::vector<TensorView> inputs, outputs;
    const Attrs* attrs = nullptr;
    std::span<std::byte> workspace;
    bool fused = false;  // with the call before it
    std::vector<TensorView> first_additions;
    bool starts_sums = false;  // its kernel begins all of them itself
    bool meets_ranks = false;  // it talks with other ranks
  };
  using Calls = std::span<const BoundCall* const>;
  // Of a program that a device has captured: where ranks meet, or what lies between.
  struct Part {
    Calls calls;
    std::unique_ptr<CapturedWork> captured;  // null: call by call
  };
  // One program on one slot.
  struct BoundProgram {
    std::vector<BoundCall> calls;
    std::vector<const BoundCall*> order;
    // Where gradients are reduced early: a backward program with these reductions, the update without them.
    std::vector<const BoundCall*> early_order;
    bool has_first_additions = false;
    // Captured: [of first micro-batches, where there are first additions][in the early order].
    std::array<std::array<std::vector<Part>, 2>, 2> parts;
  };

  std::byte* address(const Location& location, int slot) const;
  BoundCall bind(const Step& step, int slot) const;
  BoundProgram bind(const std::vector<Step>& steps, int slot) const;
  KernelCall kernel_call(const BoundCall& call, bool starting) const;
  void bind_early_orders();
  void run_calls(Calls calls, bool starting, OpTimes* times = nullptr);
  std::vector<Part> cut_into_parts(Phase phase, Calls calls) const;
  void capture(std::vector<Part>& parts, bool starting);

  Graph graph_;
  Plan plan_;
  Device& device_;
  const Executor* weights_of_;
  std::int64_t borrowed_bytes_ = 0;
  const RankGroups* ranks_;
  std::vector<std::array<std::vector<BoundProgram>, kNumPhases>> programs_;  // [chunk][phase][slot]
  bool reduces_early_ = false;                                               // the plan has early collectives
  bool reduced_early_ = false;  // and this step's backward programs have run them
  // Goes before the programs, of which the device may still have to run a call.
  std::unique_ptr<DeviceMemory> arena_;
  std::byte* scratch_ = nullptr;  // kept values, then temporary ones
};

}  // namespace tessera
