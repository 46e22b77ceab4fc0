#include "tessera/plan/recompute.h"

#include <gtest/gtest.h>

#include "plan/small_models.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

constexpr BatchShape kShape{2, 13};

// Everything a run leaves behind: losses, norms, and the bytes of weights, gradients and moments.
struct Trace {
  std::vector<double> numbers;
  std::map<std::string, std::vector<std::byte>> state;
  std::int64_t kept_bytes = 0;
};

void record_state(const Executor& executor, const std::string& when, Trace& trace) {
  for (const Value& value : executor.graph().values()) {
    if (value.producer != kNoNode || value.role == Role::batch || value.role == Role::scalar) continue;
    const TensorView view = executor.input(value.name);
    const auto* data = static_cast<const std::byte*>(view.data);
    trace.state[when + value.name] = {data, data + view.num_bytes()};
  }
}

Trace train(const Model& model, DType dtype, Recompute recompute) {
  const auto device = make_cpu_device(2);
  TrainingStep step(model, {.shape = kShape, .dtype = dtype, .recompute = recompute},
                    {.num_micro_batches = 2}, /*seed=*/5, *device);
  initialize_weights(step.weights(), step.parameters(), 5);
  Trace trace;
  trace.kept_bytes = step.executor().plan().kept_bytes();
  for (std::int64_t number = 0; number < 3; ++number) {
    std::vector<std::int32_t> ids, targets;  // two micro-batches
    for (std::int64_t i = 0; i < 2 * kShape.batch * kShape.seq_len; ++i) {
      ids.push_back(static_cast<std::int32_t>((i * i + 7 * number) % 61));
      targets.push_back(i % 9 == 0 ? -1 : static_cast<std::int32_t>((i * 5 + number) % 61));
    }
    trace.numbers.push_back(step.accumulate_gradients(ids, targets, number));
    record_state(step.executor(), "gradients of step " + std::to_string(number) + ": ", trace);
    trace.numbers.push_back(step.update(number, 1e-2));
  }
  record_state(step.executor(), "end: ", trace);
  return trace;
}

void expect_same_bits(const Model& model) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Trace none = train(model, dtype, {});
    std::int64_t kept_bytes = none.kept_bytes;
    for (const char* mode : {"gelu,swiglu", "selective", "full"}) {
      SCOPED_TRACE(mode);
      const Trace again = train(model, dtype, parse_recompute(mode, "recompute"));
      EXPECT_EQ(none.numbers, again.numbers);
      ASSERT_EQ(none.state.size(), again.state.size());
      for (const auto& [name, bytes] : none.state) EXPECT_TRUE(bytes == again.state.at(name)) << name;
      EXPECT_LT(again.kept_bytes, kept_bytes);  // each mode keeps less than the one before
      kept_bytes = again.kept_bytes;
    }
  }
}

TEST(Recompute, ChangesNoBitOfALlamaAndKeepsLess) {
  expect_same_bits(*small_llama());
}

TEST(Recompute, ChangesNoBitOfAGpt2WithDropoutAndKeepsLess) {
  expect_same_bits(*small_gpt2());
}

TEST(Recompute, ClonesNormsAndActivationsAndKeepsNamesAndOrder) {
  const auto model = small_llama();
  const Graph plain = build_training_graph(*model, {.shape = kShape}).graph;
  const Graph again = apply_recompute(plain, parse_recompute("selective", "recompute"));
  std::vector<std::string> originals;
  int clones = 0;
  for (const Node& node : again.nodes()) {
    if (node.name.ends_with(".again")) {
      ++clones;
      EXPECT_EQ(node.phase, Phase::backward);
      EXPECT_TRUE(node.op == Op::rms_norm || node.op == Op::swiglu || node.op == Op::attention) << node.name;
    } else {
      originals.push_back(node.name);
    }
  }
  EXPECT_EQ(clones, 2 * 4 + 1);  // two norms, attention and one swiglu per layer, and the last norm
  ASSERT_EQ(static_cast<std::int32_t>(originals.size()), plain.num_nodes());
  for (NodeId id = 0; id < plain.num_nodes(); ++id) {
    EXPECT_EQ(originals[static_cast<std::size_t>(id)], plain.node(id).name);
  }
  EXPECT_EQ(again.outputs().size(), plain.outputs().size());
  EXPECT_EQ(again.state_updates().size(), plain.state_updates().size());
}

// Of a layer's forward everything runs again but what only its successors read.
TEST(Recompute, FullClonesWholeLayersAndNothingElse) {
  const Graph plain = build_training_graph(*small_llama(), {.shape = kShape}).graph;
  const Graph again = apply_recompute(plain, parse_recompute("full", "recompute"));
  std::map<std::string, int> clones;
  for (const Node& node : again.nodes()) {
    if (!node.name.ends_with(".again")) continue;
    EXPECT_EQ(node.phase, Phase::backward) << node.name;
    EXPECT_TRUE(node.layer == 0 || node.layer == 1) << node.name;
    ++clones[std::string(op_name(node.op))];
  }
  // The last product and its residual only make what the next layer keeps.
  const std::map<std::string, int> wanted = {{"rms_norm", 4},  {"linear", 6}, {"rope", 2},
                                             {"attention", 2}, {"add", 2},    {"swiglu", 2}};
  EXPECT_EQ(clones, wanted);
}

TEST(Recompute, AListOfOpsOrAnErrorThatNamesTheKey) {
  const Recompute list = parse_recompute("rms_norm,swiglu", "recompute");
  EXPECT_FALSE(list.full);
  EXPECT_EQ(list.ops, (std::set<Op>{Op::rms_norm, Op::swiglu}));
  EXPECT_TRUE(parse_recompute("none", "recompute").none());
  for (const char* wrong : {"", "some", "rms_norm,,swiglu", "adamw", "linear_cross_entropy"}) {
    try {
      parse_recompute(wrong, "model.recompute");
      ADD_FAILURE() << "accepts '" << wrong << "'";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("model.recompute: found '"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Recompute, NoneIsTheSameGraph) {
  const Graph plain = build_training_graph(*small_llama(), {.shape = kShape}).graph;
  EXPECT_EQ(apply_recompute(plain, {}).num_nodes(), plain.num_nodes());
}

}  // namespace
}  // namespace tessera
