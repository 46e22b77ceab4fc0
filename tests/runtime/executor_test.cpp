#include "tessera/runtime/executor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "runtime/proxy_device.h"
#include "tessera/ops/collectives.h"
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

// Runs nothing; counts the calls, by which its clock goes, and notes what it is asked to.
class CountingDevice final : public ProxyDevice {
 public:
  void run(Op op, const KernelCall&) override {
    if (noting_) {
      ++noted_;
      return;
    }
    ++now_;
    log.emplace_back(op_name(op));
  }
  bool fuses(const Graph&, const Node& first, const Node& second) const override {
    return first.op == Op::mul && second.op == Op::add;
  }
  bool captures() const override { return true; }
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& give_work) override {
    noting_ = true;
    give_work();
    noting_ = false;
    return std::make_unique<Replay>(log, std::to_string(std::exchange(noted_, 0)) + " captured");
  }
  void mark(std::size_t moment) override {
    moments.resize(moment + 1);
    moments[moment] = now_;
  }
  double seconds_between(std::size_t from, std::size_t to) override { return moments[to] - moments[from]; }

  // What ran since the last time.
  std::vector<std::string> ran() { return std::exchange(log, {}); }

  std::vector<int> moments;
  std::vector<std::string> log;

 private:
  struct Replay final : CapturedWork {
    Replay(std::vector<std::string>& to, std::string words) : log(to), text(std::move(words)) {}
    void run() override { log.push_back(text); }
    std::vector<std::string>& log;
    std::string text;
  };

  int now_ = 0, noted_ = 0;
  bool noting_ = false;
};

using Names = std::vector<std::string>;

Executor make_on(CountingDevice& device, Graph graph) {
  PlanOptions options{.reuse_memory = false};
  options.fuses = [&](const Graph& g, const Node& a, const Node& b) { return device.fuses(g, a, b); };
  Plan plan = compile(
      graph, [](const Graph&, const Node&) { return 0; }, options);
  return Executor(std::move(graph), std::move(plan), device);
}

// y = x times 2, `times` times over.
ValueId scaled(Graph& graph, ValueId x, int times) {
  for (int i = 0; i < times; ++i) x = scale(graph, "x", x, 2.0);
  return x;
}

ValueId reduced(Graph& graph, ValueId x, Phase phase = Phase::forward) {
  return emit(graph, Op::all_reduce, phase, "sum", CollectiveAttrs{.num_ranks = 2}, {x})[0];
}

// So that nothing is left to allocate after a run's first step.
TEST_F(ExecutorTest, AProgramIsCapturedRightAfterItsFirstRun) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId zero = emit(graph, Op::zeros, Phase::init, "zero", ZerosAttrs{kType}, {})[0];
  graph.mark_output("y", add(graph, "y", scaled(graph, x, 2), zero));
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
  EXPECT_EQ(device.ran(), (Names{"zeros"}));  // the init program, once
  executor.run(Phase::forward);
  EXPECT_EQ(device.ran(), (Names{"scale", "scale", "add"}));
  for (int run = 0; run < 2; ++run) {
    executor.run(Phase::forward);
    EXPECT_EQ(device.ran(), (Names{"3 captured"}));
  }
}

// What the ranks sum is read three calls later; those run beside it. A short rest is not worth capturing.
TEST_F(ExecutorTest, RanksMeetBetweenTheCapturedPartsOfAProgram) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = reduced(graph, scaled(graph, x, 4));
  graph.mark_output("beside", scaled(graph, x, 3));
  graph.mark_output("after", reduced(graph, scaled(graph, sum, 5)));
  graph.mark_output("rest", scaled(graph, x, 2));
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
  executor.run(Phase::forward);
  EXPECT_EQ(device.ran().size(), 16u);
  executor.run(Phase::forward);
  EXPECT_EQ(device.ran(),
            (Names{"4 captured", "all_reduce", "3 captured", "5 captured", "all_reduce", "scale", "scale"}));
}

// The second of the pair has to wait, so both do.
TEST_F(ExecutorTest, APairIsNotCutApart) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = reduced(graph, scaled(graph, x, 3));
  graph.mark_output("beside", scaled(graph, x, 3));
  graph.mark_output("after", scaled(graph, add(graph, "y", mul(graph, "xx", x, x), sum), 2));
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
  executor.run(Phase::forward);
  device.ran();
  executor.run(Phase::forward);
  EXPECT_EQ(device.ran(), (Names{"3 captured", "all_reduce", "3 captured", "4 captured"}));
}

// Of the last micro-batch's backward pass, be it the first, too, or not.
TEST_F(ExecutorTest, GradientsAreReducedBetweenTheCapturedPartsOfABackwardPass) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  for (const std::string name : {"one", "two"}) {
    const ValueId before = graph.add_input(name, kType, Role::gradient);
    ValueId sum = before;
    for (int i = 0; i < 4; ++i) sum = emit(graph, Op::sum_to, Phase::backward, name, {}, {sum, x})[0];
    graph.add_state_update(before, sum);
    ValueId all = reduced(graph, sum, Phase::update);
    for (int i = 0; i < 3; ++i) all = emit(graph, Op::scale, Phase::update, name, ScaleAttrs{2.0}, {all})[0];
    graph.mark_output(name, all);
  }
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
  const Names last{"4 captured", "all_reduce", "4 captured", "all_reduce"};
  for (int step = 0; step < 2; ++step) {
    for (const bool first : {true, false}) {
      device.ran();
      executor.run(Phase::backward, {.first_micro_batch = first});
      executor.run(Phase::backward, {.first_micro_batch = first, .update_follows = true});
      executor.run(Phase::update);
      if (step == 0) continue;
      Names all{"8 captured"};
      all.insert(all.end(), last.begin(), last.end());
      all.push_back("6 captured");
      EXPECT_EQ(device.ran(), all) << first;
    }
  }
}

// The next forward pass begins while weights are still gathered, and waits where it reads the first of them.
TEST_F(ExecutorTest, ACapturedForwardPassBeginsBeforeTheUpdatesCollectivesEnd) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  ValueId y = x;
  for (const std::string name : {"one", "two"}) {
    const ValueId weight = graph.add_input(name, kType, Role::parameter);
    y = mul(graph, "y", scaled(graph, y, 3), weight);
    graph.add_state_update(weight, reduced(graph, weight, Phase::update));
  }
  graph.mark_output("y", scaled(graph, y, 3));
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
  executor.run(Phase::forward);
  executor.run(Phase::update);
  EXPECT_EQ(device.ran().size(), 13u);
  executor.run(Phase::forward);
  executor.run(Phase::update);
  EXPECT_EQ(device.ran(), (Names{"3 captured", "4 captured", "4 captured", "all_reduce", "all_reduce"}));
}

// A device may gather neighbours of one op, which a moment between them would keep it from.
TEST_F(ExecutorTest, NeighboursOfOneOpAreTimedTogether) {
  Graph graph;
  ValueId x = graph.add_input("x", kType, Role::batch);
  for (const double factor : {2.0, 3.0, 4.0}) x = scale(graph, "x", x, factor);
  x = mul(graph, "squared", x, x);
  graph.mark_output("y", scale(graph, "y", x, 5.0));
  CountingDevice device;
  Executor executor = make_on(device, std::move(graph));
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
