#include "tessera/runtime/executor.h"

#include <gtest/gtest.h>

#include "runtime/proxy_device.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;
const ValueType kType{DType::f32, Shape{3}};

class ExecutorTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(2);

  std::unique_ptr<Executor> make(Graph graph, const PlanOptions& options = {},
                                 const Executor* weights_of = nullptr, const Executor* scratch_of = nullptr) {
    Plan plan = compile(
        graph, [&](const Graph& g, const Node& n) { return device_->workspace_bytes(g, n); }, options);
    return std::make_unique<Executor>(std::move(graph), std::move(plan), *device_, weights_of, nullptr,
                                      scratch_of);
  }
  static Floats read(const TensorView& view) { return {view.as<float>().begin(), view.as<float>().end()}; }
};

// y = x * weight, and an update that adds x to the weight in place.
Graph weighted(bool with_update) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId weight = graph.add_input("weight", kType, Role::parameter);
  graph.mark_output("y", mul(graph, "y", x, weight));
  if (with_update) {
    const ValueId next = emit(graph, Op::sum_to, Phase::update, "next", {}, {weight, x})[0];
    graph.add_state_update(weight, next);
  }
  return graph;
}

TEST_F(ExecutorTest, ExternalParametersAreReadWhereTheOtherKeepsThem) {
  const auto training = make(weighted(true));
  const auto evaluation = make(weighted(false), {.external_parameters = true}, training.get());
  EXPECT_EQ(evaluation->input("weight").data, training->input("weight").data);
  EXPECT_EQ(evaluation->plan().persistent_bytes, 256);  // the output alone: no copy of the weight

  training->write<float>("weight", Floats{1, 2, 3});
  evaluation->write<float>("x", Floats{10, 10, 10});
  evaluation->run(Phase::forward);
  EXPECT_EQ(read(evaluation->output("y")), (Floats{10, 20, 30}));

  training->write<float>("x", Floats{5, 6, 7});
  training->run(Phase::update);
  evaluation->run(Phase::forward);
  EXPECT_EQ(read(evaluation->output("y")), (Floats{60, 80, 100}));
}

// y = x * x, of so many elements.
Graph squared(std::int64_t size) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, Shape{size}}, Role::batch);
  graph.mark_output("y", mul(graph, "y", x, x));
  return graph;
}

TEST_F(ExecutorTest, ScratchIsAnothersIfItFitsInThere) {
  const auto lender = make(squared(300));
  const auto small = make(squared(3), {}, nullptr, lender.get());
  EXPECT_EQ(small->input("x").data, lender->input("x").data);
  EXPECT_EQ(small->allocated_bytes(), small->plan().persistent_bytes);
  const auto large = make(squared(3000), {}, nullptr, lender.get());
  EXPECT_NE(large->input("x").data, lender->input("x").data);
  EXPECT_EQ(large->allocated_bytes(), large->plan().arena_bytes());

  for (Executor* const executor : {small.get(), large.get(), lender.get()}) {
    const auto size = static_cast<std::size_t>(executor->input("x").num_elems());
    executor->write<float>("x", Floats(size, 3.0f));
    executor->run(Phase::forward);
    EXPECT_EQ(read(executor->output("y")), Floats(size, 9.0f));
  }
}

TEST_F(ExecutorTest, SlotsHoldTheirOwnBatchAndKeptValues) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  const ValueId h = scale(graph, "h", x, 2.0);  // kept for backward
  const ValueId next = emit(graph, Op::sum_to, Phase::backward, "next", {}, {sum, h})[0];
  graph.add_state_update(sum, next);
  const auto executor = make(std::move(graph), {.num_slots = {2}});
  executor->write<float>("x", Floats{1, 2, 3}, 0);
  executor->write<float>("x", Floats{10, 20, 30}, 1);
  executor->run(Phase::forward, {.slot = 0});
  executor->run(Phase::forward, {.slot = 1});
  executor->run(Phase::backward, {.slot = 0});
  EXPECT_EQ(read(executor->input("sum")), (Floats{2, 4, 6}));
  executor->run(Phase::backward, {.slot = 1});
  EXPECT_EQ(read(executor->input("sum", 1)), (Floats{22, 44, 66}));  // one sum for all slots
}

// One sum that a kernel starts itself (linear_grad_weight) and one that has to be cleared for it (sum_to).
TEST_F(ExecutorTest, AFirstMicroBatchStartsTheSumsAnew) {
  Graph graph;
  const ValueType matrix{DType::f32, Shape{1, 3}};
  const ValueId x = graph.add_input("x", matrix, Role::batch);
  for (const std::string name : {"weight", "bias"}) {
    const ValueId sum =
        graph.add_input(name, name == "weight" ? ValueType{DType::f32, Shape{3, 3}} : kType, Role::gradient);
    const ValueId next = name == "weight"
                             ? emit(graph, Op::linear_grad_weight, Phase::backward, name, {}, {sum, x, x})[0]
                             : emit(graph, Op::sum_to, Phase::backward, name, {}, {sum, x})[0];
    graph.add_state_update(sum, next);
  }
  const auto executor = make(std::move(graph));
  executor->write<float>("x", Floats{1, 2, 3});
  for (int step = 0; step < 3; ++step) {  // three times, as a device may run the later ones in another way
    executor->run(Phase::backward, {.first_micro_batch = true});
    EXPECT_EQ(read(executor->input("weight")), (Floats{1, 2, 3, 2, 4, 6, 3, 6, 9}));
    EXPECT_EQ(read(executor->input("bias")), (Floats{1, 2, 3}));
    executor->run(Phase::backward);
    EXPECT_EQ(read(executor->input("weight")), (Floats{2, 4, 6, 4, 8, 12, 6, 12, 18}));
    EXPECT_EQ(read(executor->input("bias")), (Floats{2, 4, 6}));
  }
}

TEST_F(ExecutorTest, ConstantsAreThereBeforeTheFirstProgram) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId zero = emit(graph, Op::zeros, Phase::init, "zero", ZerosAttrs{kType}, {})[0];
  graph.mark_output("y", add(graph, "y", x, zero));
  const auto executor = make(std::move(graph));
  executor->write<float>("x", Floats{1, 2, 3});
  executor->run(Phase::forward);
  EXPECT_EQ(read(executor->output("y")), (Floats{1, 2, 3}));
}

// Runs nothing; counts the calls, by which its clock goes, and notes programs.
class CountingDevice final : public ProxyDevice {
 public:
  void run(Op, const KernelCall&) override { ++(noting_ ? noted : now_); }
  bool begin_capture() override { return noting_ = true; }
  std::unique_ptr<CapturedProgram> end_capture() override {
    noting_ = false;
    return std::make_unique<Replay>(replays);
  }
  void mark(std::size_t moment) override {
    moments.resize(moment + 1);
    moments[moment] = now_;
  }
  double seconds_between(std::size_t from, std::size_t to) override { return moments[to] - moments[from]; }

  std::vector<int> moments;
  int noted = 0, replays = 0;
  int num_runs() const { return now_; }

 private:
  struct Replay final : CapturedProgram {
    explicit Replay(int& counter) : count(counter) {}
    void run() override { ++count; }
    int& count;
  };

  int now_ = 0;
  bool noting_ = false;
};

// So that nothing is left to allocate after a run's first step.
TEST_F(ExecutorTest, AProgramIsNotedRightAfterItsFirstRun) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId zero = emit(graph, Op::zeros, Phase::init, "zero", ZerosAttrs{kType}, {})[0];
  graph.mark_output("y", add(graph, "y", x, zero));
  CountingDevice device;
  Plan plan = compile(graph, [](const Graph&, const Node&) { return 0; }, {});
  Executor executor(std::move(graph), std::move(plan), device);
  EXPECT_EQ(device.num_runs(), 1);
  EXPECT_EQ(device.noted, 0);  // of the init program nothing
  for (int run = 0; run < 3; ++run) {
    executor.run(Phase::forward);
    EXPECT_EQ(device.num_runs(), 2);
    EXPECT_EQ(device.noted, 1);
    EXPECT_EQ(device.replays, run);
  }
}

// A device may gather neighbours of one op, which a moment between them would keep it from.
TEST_F(ExecutorTest, NeighboursOfOneOpAreTimedTogether) {
  Graph graph;
  ValueId x = graph.add_input("x", kType, Role::batch);
  for (const double factor : {2.0, 3.0, 4.0}) x = scale(graph, "x", x, factor);
  x = mul(graph, "squared", x, x);
  graph.mark_output("y", scale(graph, "y", x, 5.0));
  CountingDevice device;
  Plan plan = compile(graph, [](const Graph&, const Node&) { return 0; }, {});
  Executor executor(std::move(graph), std::move(plan), device);
  OpTimes times;
  executor.run(Phase::forward, {.times = &times});
  EXPECT_EQ(device.moments, (std::vector{0, 3, 4, 5}));
  EXPECT_EQ(times.seconds[static_cast<std::size_t>(Op::scale)], 4);
  EXPECT_EQ(times.seconds[static_cast<std::size_t>(Op::mul)], 1);
}

TEST_F(ExecutorTest, ReadsScalarsOfBothWidths) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const ValueId x = graph.add_input("x", {dtype, Shape{}}, Role::scalar);
    graph.mark_output("y", scale(graph, "y", x, 2.0));
    const auto executor = make(std::move(graph));
    if (dtype == DType::f32) {
      executor->write<float>("x", Floats{1.5});
    } else {
      executor->write<double>("x", std::vector<double>{1.5});
    }
    executor->run(Phase::forward);
    EXPECT_EQ(executor->read_scalar("y"), 3.0f);
  }
}

}  // namespace
}  // namespace tessera
