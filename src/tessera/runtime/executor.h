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

class Executor {
 public:
  // Runs the init program. `device` must outlive the executor, and so must `weights_of`, whose parameters or
  // caches a plan that says so works on.
  Executor(Graph graph, Plan plan, Device& device, const Executor* weights_of = nullptr,
           const RankGroups* ranks = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run(Phase phase, int slot = 0, OpTimes* times = nullptr, int chunk = 0);

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

 private:
  struct BoundCall {
    Op op{};
    std::vector<TensorView> inputs, outputs;
    const Attrs* attrs = nullptr;
    std::span<std::byte> workspace;
    bool fused = false;  // with the call before it
  };
  // One program on one slot.
  struct BoundProgram {
    std::vector<BoundCall> calls;
    int runs = 0;
    std::unique_ptr<CapturedProgram> captured;
  };

  std::byte* address(const Location& location, int slot) const;
  BoundCall bind(const Step& step, int slot) const;
  KernelCall kernel_call(const BoundCall& call) const;
  void run_calls(const BoundProgram& program, OpTimes* times = nullptr);

  Graph graph_;
  Plan plan_;
  Device& device_;
  const Executor* weights_of_;
  std::unique_ptr<DeviceMemory> arena_;
  const RankGroups* ranks_;
  std::vector<std::array<std::vector<BoundProgram>, kNumPhases>> programs_;  // [chunk][phase][slot]
};

}  // namespace tessera
