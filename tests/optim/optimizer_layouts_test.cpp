// Every optimizer gives the same weights however the ranks share the work: a few steps on one rank are the
// reference for all layouts. LAMB is the hard one: its step needs norms of whole parameters, of which each
// rank has a shard, a range, a copy, or nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "checkpoint/temporary_folder.h"
#include "plan/small_models.h"
#include "tessera/ops/collectives.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

constexpr std::int64_t kSeqLen = 8, kBatch = 4;
constexpr int kSteps = 4;

using Tensors = std::map<std::string, std::vector<float>>;

struct RunResult {
  Tensors tensors;  // parameters and optimizer state, whole
  std::vector<double> losses, norms;
};

// `keys` on top of a config for four steps, e.g. "parallel.tp=2".
RunConfig config_of(const std::vector<std::string>& keys) {
  RunConfig config;
  config.train.seq_len = kSeqLen;
  config.train.global_batch = kBatch;
  config.optimizer.lr = 0.02;
  config.optimizer.eps = 1e-6;
  config.threads = 1;
  apply_overrides(config, keys);
  return config;
}

RunResult train_few_steps(const Model& model, const RunConfig& config) {
  std::vector<std::int32_t> ids(kBatch * kSeqLen);
  RunResult result;
  std::mutex mutex;
  run_ranks(config, false, [&](Communicator* world) {
    const auto device = make_device(config);
    TrainingStep step(model, training_graph_options(config), layout_of(config), 1, *device, world);
    initialize_weights(step.weights(), step.parameters(), 7);
    RunResult mine;
    for (int s = 0; s < kSteps; ++s) {
      std::vector<std::int32_t> batch(ids.size());
      for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i] = static_cast<std::int32_t>((i * i + 5 * i + 11 * static_cast<std::size_t>(s)) % 61);
      std::vector<std::int32_t> targets(batch.begin() + 1, batch.end());
      targets.push_back(-1);
      const StepResult done = step.run(batch, targets, s, config.optimizer.lr);
      mine.losses.push_back(done.loss);
      mine.norms.push_back(done.grad_norm);
    }
    for (const PlacedTensor& tensor : step.weights().state()) {
      if (tensor.role == Role::parameter || tensor.role == Role::optimizer_state)
        mine.tensors[tensor.name] = step.weights().read(tensor.name);
    }
    const std::lock_guard lock(mutex);
    if (!world || world->rank() == 0) result = std::move(mine);
  });
  return result;
}

RunResult train_with(const Model& model, std::vector<std::string> keys, const std::string& more) {
  for (std::size_t begin = 0; begin < more.size();) {
    const std::size_t end = std::min(more.find(' ', begin), more.size());
    keys.push_back(more.substr(begin, end - begin));
    begin = end + 1;
  }
  return train_few_steps(model, config_of(keys));
}

double relative_error(const std::vector<float>& found, const std::vector<float>& wanted) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

void expect_close(const RunResult& found, const RunResult& wanted, double tolerance) {
  ASSERT_EQ(found.tensors.size(), wanted.tensors.size());
  for (const auto& [name, values] : wanted.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    ASSERT_EQ(found.tensors.at(name).size(), values.size()) << name;
    EXPECT_LE(relative_error(found.tensors.at(name), values), tolerance) << name;
  }
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  ASSERT_EQ(found.norms.size(), wanted.losses.size());
  for (std::size_t s = 0; s < wanted.losses.size(); ++s) {
    EXPECT_NEAR(found.losses[s], wanted.losses[s], tolerance * wanted.losses[s]) << "step " << s;
    EXPECT_NEAR(found.norms[s], wanted.norms[s], tolerance * wanted.norms[s]) << "step " << s;
  }
}

void expect_same_bits(const RunResult& found, const RunResult& wanted) {
  EXPECT_EQ(found.tensors, wanted.tensors);
  EXPECT_EQ(found.losses, wanted.losses);
  EXPECT_EQ(found.norms, wanted.norms);
}

const char* const kLayouts[] = {
    "parallel.dp=2",
    "parallel.dp=2 parallel.zero1=true",
    "parallel.dp=4 parallel.zero1=true",
    "parallel.tp=2",
    "parallel.tp=4 parallel.sequence=true",  // more ranks than key heads: shared heads have copies
    "parallel.tp=2 parallel.dp=2 parallel.zero1=true",
    "parallel.pp=2",
    "parallel.pp=2 parallel.tp=2 parallel.dp=2 parallel.zero1=true",
};

// What rounding does to weights and moments in four steps of size 0.02; the largest measured is 5e-5,
// of AdamW, whose first steps are as long for a gradient near zero as for a large one.
constexpr double kTolerance = 1e-4;

TEST(OptimizerLayouts, OneRankAndManyAgree) {
  const auto llama = small_llama();
  for (const char* name : {"adamw", "lamb", "sgd"}) {
    const std::vector<std::string> keys = {std::string("optimizer.name=") + name};
    const RunResult wanted = train_with(*llama, keys, "");
    for (const char* layout : kLayouts) {
      SCOPED_TRACE(std::string(name) + " " + layout);
      expect_close(train_with(*llama, keys, layout), wanted, kTolerance);
    }
  }
}

// The embedding lies on the first and the last stage, and counts once in its norm.
TEST(OptimizerLayouts, TiedEmbeddingOnTwoStages) {
  const auto tied = make_llama({.vocab_size = 61,
                                .hidden_size = 32,
                                .layers = 2,
                                .heads = 4,
                                .kv_heads = 4,
                                .head_dim = 8,
                                .ffn_size = 48,
                                .max_positions = 64,
                                .tie_embeddings = true});
  const std::vector<std::string> keys = {"optimizer.name=lamb"};
  const RunResult wanted = train_with(*tied, keys, "");
  for (const char* layout : {"parallel.pp=2", "parallel.pp=2 parallel.dp=2 parallel.zero1=true"}) {
    SCOPED_TRACE(layout);
    expect_close(train_with(*tied, keys, layout), wanted, kTolerance);
  }
}

TEST(OptimizerLayouts, ZeroOnAndOffGiveTheSameBits) {
  const auto llama = small_llama();
  for (const char* name : {"adamw", "lamb", "sgd"}) {
    for (const char* precision : {"fp32", "bf16"}) {
      for (const char* layout : {"parallel.dp=2", "parallel.dp=4", "parallel.dp=2 parallel.tp=2"}) {
        SCOPED_TRACE(std::string(name) + " " + precision + " " + layout);
        const std::vector<std::string> keys = {std::string("optimizer.name=") + name,
                                               std::string("precision=") + precision};
        expect_same_bits(train_with(*llama, keys, std::string(layout) + " parallel.zero1=true"),
                         train_with(*llama, keys, layout));
      }
    }
  }
}

// Two copies of the state, each cut over two ranks: the gradient is summed in another order.
TEST(OptimizerLayouts, GroupsOfZero) {
  const auto llama = small_llama();
  for (const char* name : {"adamw", "lamb", "sgd"}) {
    for (const char* layout :
         {"parallel.dp=4 parallel.zero1_group=2", "parallel.dp=4 parallel.zero1_group=2 parallel.tp=2",
          "parallel.dp=4 parallel.zero1_group=2 parallel.pp=2"}) {
      SCOPED_TRACE(std::string(name) + " " + layout);
      const std::vector<std::string> keys = {std::string("optimizer.name=") + name, "parallel.zero1=true"};
      expect_close(train_with(*llama, keys, layout), train_with(*llama, keys, ""), kTolerance);
    }
  }
  const std::vector<std::string> keys = {"optimizer.name=lamb", "parallel.dp=4"};
  expect_same_bits(train_with(*llama, keys, "parallel.zero1=true parallel.zero1_group=4"),
                   train_with(*llama, keys, "parallel.zero1=true"));
  expect_same_bits(train_with(*llama, keys, "parallel.zero1=true parallel.zero1_group=1"),
                   train_with(*llama, keys, ""));
}

// The state is cut by the size of a group, not by dp; scattering stays in the group, and only a range of the
// gradients travels between groups.
TEST(OptimizerLayouts, GroupsOfZeroInThePlan) {
  const auto llama = small_llama();
  const auto measure = [&](const std::string& key) {
    const RunConfig config = config_of({"parallel.dp=4", "parallel.zero1=true", key});
    TrainingGraphOptions options = training_graph_options(config);
    options.shape.batch *= 4;
    const Graph whole = build_training_graph(*llama, options).graph;
    const Graph rank = partition_layout(whole, layout_of(config), {}).graph;
    std::map<std::string, std::int64_t> bytes;
    for (const Value& value : whole.values()) {
      if (value.role == Role::optimizer_state) bytes["whole state"] += value.type.num_bytes();
      if (value.role == Role::gradient) bytes["gradients"] += value.type.num_bytes();
    }
    for (const Value& value : rank.values()) {
      if (value.role == Role::optimizer_state) bytes["state"] += value.type.num_bytes();
    }
    for (const Node& node : rank.nodes()) {
      if (node.phase != Phase::update || rank.type(node.inputs[0]).shape.rank() == 0) continue;
      for (const Traffic& t : node_traffic(rank, node))
        bytes[std::string(t.kind) + " " + std::string(group_name(t.group))] += t.payload;
    }
    return bytes;
  };
  auto all = measure("parallel.zero1_group=0"), grouped = measure("parallel.zero1_group=2");
  EXPECT_EQ(all["state"], all["whole state"] / 4);
  EXPECT_EQ(grouped["state"], grouped["whole state"] / 2);
  EXPECT_EQ(all["reduce_scatter dp"], all["gradients"]);
  EXPECT_EQ(grouped["reduce_scatter ranges"], grouped["gradients"]);
  EXPECT_EQ(grouped["all_reduce copies"], grouped["gradients"] / 2);
  EXPECT_EQ(grouped["all_gather ranges"], grouped["gradients"]);
  EXPECT_EQ(grouped["reduce_scatter dp"] + grouped["all_gather dp"], 0);
}

TEST(OptimizerLayouts, RefusesGroupsThatDoNotDivide) {
  const auto message = [](const std::vector<std::string>& keys) -> std::string {
    try {
      layout_of(config_of(keys));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const std::string uneven = message({"parallel.dp=4", "parallel.zero1=true", "parallel.zero1_group=3"});
  EXPECT_NE(uneven.find("parallel.zero1_group = 3 does not divide parallel.dp = 4"), std::string::npos)
      << uneven;
  EXPECT_NE(message({"parallel.dp=4", "parallel.zero1_group=2"}).find("parallel.zero1 = true"),
            std::string::npos);
}

// Whatever state an optimizer has goes to disk whole, and comes back on another layout.
TEST(OptimizerLayouts, CheckpointsHoldTheOptimizersState) {
  const auto llama = small_llama();
  for (const char* name : {"adamw", "lamb", "sgd"}) {
    SCOPED_TRACE(name);
    const RunConfig one = config_of({std::string("optimizer.name=") + name});
    const RunConfig two =
        config_of({std::string("optimizer.name=") + name, "parallel.dp=2", "parallel.zero1=true"});
    const TemporaryFolder folder;
    const auto device = make_device(one);
    TrainingStep step(*llama, training_graph_options(one), layout_of(one), 1, *device);
    Tensors wanted;
    for (const PlacedTensor& tensor : step.weights().state()) {
      if (tensor.role != Role::parameter && tensor.role != Role::optimizer_state) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.whole.shape.num_elems()));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i + tensor.name.size());  // differs from name to name
      step.weights().write(tensor.name, values);
      wanted[tensor.name] = values;
    }
    const auto at = save_checkpoint(folder.path(), {}, checkpoint_files(step.weights(), step.parameters()));
    run_ranks(two, false, [&](Communicator* world) {
      const auto own_device = make_device(two);
      TrainingStep other(*llama, training_graph_options(two), layout_of(two), 1, *own_device, world);
      LoadedCheckpoint checkpoint(at);
      load_checkpoint_state(other.weights(), other.parameters(), checkpoint);
      for (const auto& [tensor, values] : wanted) {
        const std::vector<float> found = other.weights().read(tensor);
        if (world->rank() == 0) {
          EXPECT_EQ(found, values) << tensor;
        }
      }
    });
  }
}

TEST(OptimizerLayouts, Bf16StateUnderZero) {
  const auto llama = small_llama();
  const std::vector<std::string> keys = {"optimizer.name=lamb", "precision=bf16",
                                         "optimizer.state_dtype=bf16"};
  const RunResult off = train_with(*llama, keys, "parallel.dp=2");
  EXPECT_FALSE(off.tensors.contains("low.embed.weight"));
  expect_same_bits(train_with(*llama, keys, "parallel.dp=2 parallel.zero1=true"), off);
}

// Three ranks hold two heads twice over: each has the shared one at another place.
TEST(OptimizerLayouts, Bf16StateOfHeadsSharedUnevenlyIsRefused) {
  const auto llama = make_llama({.vocab_size = 61,
                                 .hidden_size = 48,
                                 .layers = 1,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 8,
                                 .ffn_size = 48,
                                 .max_positions = 64});
  const std::vector<std::string> keys = {"precision=bf16", "optimizer.state_dtype=bf16"};
  expect_error([&] { train_with(*llama, keys, "parallel.tp=3"); },
               {"optimizer.state_dtype = bf16 does not go with parallel.tp = 3", "model.kv_heads"});
  for (const char* layout : {"parallel.tp=2", "parallel.tp=6"}) train_with(*llama, keys, layout);
}

// All norms of all parameters travel together: one all-reduce per axis, beside the one of the global norm.
TEST(OptimizerLayouts, NormsOfLambTakeOneCollectivePerAxis) {
  const auto llama = small_llama();
  for (const char* zero1 : {"parallel.zero1=true", "parallel.zero1=false"}) {
    const RunConfig config = config_of({"optimizer.name=lamb", "parallel.dp=2", "parallel.tp=2", zero1});
    TrainingGraphOptions options = training_graph_options(config);
    options.shape.batch *= 2;
    const Graph whole = build_training_graph(*llama, options).graph;
    const Partitioned rank = partition_layout(whole, layout_of(config), {});
    std::map<std::string, int> found;  // by axis
    const auto num_parameters =
        static_cast<std::int64_t>(build_training_graph(*llama, options).parameters.size());
    for (const Node& node : rank.graph.nodes()) {
      if (node.phase != Phase::update || node.op != Op::all_reduce) continue;
      const Shape& shape = rank.graph.type(node.inputs[0]).shape;
      if (shape == Shape{2 * num_parameters})
        ++found[std::string(group_name(node.attrs.as<CollectiveAttrs>().group))];
    }
    EXPECT_EQ(found, (std::map<std::string, int>{{"dp", 1}, {"tp", 1}}));
  }
}

}  // namespace
}  // namespace tessera
