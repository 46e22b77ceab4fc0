// Memory falls with the ranks as theory says, exactly; and jobs far larger than this machine can be planned.
#include "tessera/train/job_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tessera/backend/null/null_device.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"

namespace tessera {
namespace {

// Sizes that divide by 8 down to the arena's alignment, so that the quotients are exact.
constexpr std::int64_t kSeqLen = 512, kWidth = 256, kLayers = 8, kVocab = 1024;

JobPlan plan_llama(Layout layout, int num_micro_batches = 8) {
  const auto model = make_llama({.vocab_size = kVocab,
                                 .hidden_size = kWidth,
                                 .layers = kLayers,
                                 .heads = 8,
                                 .kv_heads = 8,
                                 .head_dim = 32,
                                 .ffn_size = 512,
                                 .max_positions = kSeqLen});
  layout.num_micro_batches = num_micro_batches;
  TrainingGraphOptions options;
  options.shape = {1, kSeqLen};
  return plan_job(*model, options, layout, *make_null_device());
}

const MemoryReport& memory(const JobPlan& job) {
  return job.stages[0].memory;
}

TEST(JobPlanTest, OptimizerStateIsDividedByDpWithZero1AndOnlyThen) {
  const std::int64_t whole = memory(plan_llama({})).optimizer_state;
  for (int dp : {2, 4, 8}) {
    EXPECT_EQ(memory(plan_llama({.mesh = {1, dp, 1}})).optimizer_state, whole);
    EXPECT_EQ(memory(plan_llama({.mesh = {1, dp, 1}, .zero1 = true})).optimizer_state * dp, whole);
  }
}

// What a device can run beside the backward pass: with ZeRO-1 and without, every bucket, from the first
// layers of the pass on.
TEST(JobPlanTest, GradientsAreReducedUnderTheBackwardPass) {
  for (const bool zero1 : {false, true}) {
    const JobPlan job = plan_llama({.mesh = {2, 2, 2}, .zero1 = zero1, .bucket_bytes = 1 << 20});
    for (const StagePlan& stage : job.stages) {
      const Chunk& chunk = stage.plan.chunks[0];
      std::size_t buckets = 0;
      for (const Step& step : stage.plan.program(Phase::update)) {
        const Op op = stage.graph.node(step.node).op;
        if (op != Op::all_reduce && op != Op::reduce_scatter_flat) continue;
        buckets += stage.graph.node(step.node).name.starts_with("gradients.");
      }
      EXPECT_GT(buckets, 4u);
      ASSERT_EQ(chunk.early.size(), buckets);
      EXPECT_LT(4 * static_cast<std::size_t>(chunk.early.front().after),
                stage.plan.program(Phase::backward).size());
    }
  }
}

TEST(JobPlanTest, WeightsAreDividedByTpAndPp) {
  const std::int64_t whole = memory(plan_llama({})).weights;
  const std::int64_t norm = kWidth * 4;  // the only weights that lie whole on every tp rank
  const std::int64_t norms = (2 * kLayers + 1) * norm;
  for (int tp : {2, 4, 8}) {
    EXPECT_EQ(memory(plan_llama({.mesh = {1, 1, tp}})).weights, norms + (whole - norms) / tp);
  }
  for (int pp : {2, 4}) {
    for (int tp : {1, 2}) {
      const JobPlan job = plan_llama({.mesh = {pp, 1, tp},
                                      .layers_per_stage = std::vector<int>(static_cast<std::size_t>(pp),
                                                                           static_cast<int>(kLayers) / pp)});
      const std::int64_t table = kVocab * kWidth * 4 / tp;
      const std::int64_t layers =
          (whole - norms - 2 * kVocab * kWidth * 4) / tp / pp + 2 * kLayers / pp * norm;
      for (int stage = 0; stage < pp; ++stage) {
        const std::int64_t ends = (stage == 0 ? table : 0) + (stage == pp - 1 ? table + norm : 0);
        EXPECT_EQ(job.stages[static_cast<std::size_t>(stage)].memory.weights, layers + ends)
            << "pp " << pp << " tp " << tp;
      }
    }
  }
}

TEST(JobPlanTest, ActivationsAreDividedByTpWithSequenceParallelism) {
  const std::int64_t whole = memory(plan_llama({})).activations_kept;
  const std::int64_t batch = 2 * kSeqLen * 4;  // ids and targets, which every rank needs
  for (int tp : {2, 4, 8}) {
    EXPECT_EQ(memory(plan_llama({.mesh = {1, 1, tp}, .sequence = true})).activations_kept,
              batch + (whole - batch) / tp);
    EXPECT_GT(memory(plan_llama({.mesh = {1, 1, tp}})).activations_kept, batch + (whole - batch) / tp);
  }
}

TEST(JobPlanTest, AStageKeepsAsManyMicroBatchesAsItsScheduleHasInFlight) {
  const Layout base{.mesh = {4, 1, 1}, .layers_per_stage = {2, 2, 2, 2}};
  Layout gpipe = base;
  gpipe.schedule = ScheduleKind::gpipe;
  const JobPlan one_f_one_b = plan_llama(base), all = plan_llama(gpipe);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(one_f_one_b.stages[stage].plan.chunks[0].num_slots, 4 - static_cast<int>(stage));
    EXPECT_EQ(all.stages[stage].plan.chunks[0].num_slots, 8);
    EXPECT_EQ(one_f_one_b.stages[stage].plan.chunks[0].kept_bytes,
              all.stages[stage].plan.chunks[0].kept_bytes);
  }
}

// One to the next stage and one to the one before for each micro-batch that the earlier of the two may hold.
TEST(JobPlanTest, MessagesHaveRoomForAllThatCanBeOnTheirWay) {
  constexpr std::int64_t kMessage = kSeqLen * kWidth * 4;
  Layout layout{.mesh = {4, 1, 1}, .layers_per_stage = {2, 2, 2, 2}};
  const auto messages = [&] {
    std::vector<std::int64_t> counts;
    for (const StagePlan& stage : plan_llama(layout).stages) {
      EXPECT_EQ(stage.message_bytes % kMessage, 0);
      counts.push_back(stage.message_bytes / kMessage);
    }
    return counts;
  };
  EXPECT_EQ(messages(), (std::vector<std::int64_t>{4, 4 + 3, 3 + 2, 2}));
  layout.schedule = ScheduleKind::gpipe;
  EXPECT_EQ(messages(), (std::vector<std::int64_t>{8, 16, 16, 8}));
  EXPECT_EQ(plan_llama({}).stages[0].message_bytes, 0);
}

TEST(JobPlanTest, GradientTrafficIsTheTextbooks) {
  for (int dp : {2, 4, 8}) {
    const JobPlan all_reduce = plan_llama({.mesh = {1, dp, 1}}),
                  zero1 = plan_llama({.mesh = {1, dp, 1}, .zero1 = true});
    const std::int64_t gradients = memory(all_reduce).gradients, weights = memory(all_reduce).weights;
    const std::int64_t norm = 2 * (8 * (dp - 1) / dp);  // one double
    EXPECT_EQ(bytes_sent(all_reduce.stages[0].traffic, Group::dp), 2 * gradients / dp * (dp - 1) + norm);
    EXPECT_EQ(bytes_sent(zero1.stages[0].traffic, Group::dp), (gradients + weights) / dp * (dp - 1) + norm);
  }
}

TEST(JobPlanTest, PlansGpt3OnSixteenThousandRanks) {
  const auto model = make_gpt2({.vocab_size = 50257,
                                .hidden_size = 12288,
                                .layers = 96,
                                .heads = 96,
                                .ffn_size = 49152,
                                .max_positions = 2048,
                                .embedding_dropout = 0.1,
                                .residual_dropout = 0.1});
  TrainingGraphOptions options;
  options.shape = {1, 2048};
  options.dtype = DType::bf16;
  for (int dp : {1, 64}) {
    Layout layout{.mesh = {8, dp, 32}, .sequence = true, .zero1 = true, .num_micro_batches = 64};
    const JobPlan job = plan_job(*model, options, layout, *make_null_device());
    ASSERT_EQ(job.stages.size(), 8u);
    EXPECT_EQ(job.num_parameters, 174604259328);
    std::int64_t state = 0;
    for (const StagePlan& stage : job.stages) {
      EXPECT_EQ(stage.layers.size(), 12u);
      state += stage.memory.optimizer_state;
    }
    // Two fp32 numbers and half of one per parameter; positions, norms and biases added to row products are
    // on all tp ranks, the tied embedding, padded by 15 rows, on two stages.
    const std::int64_t d = 12288, table = (50257 + 15) * d, replicated = 2048 * d + 96 * 6 * d + 2 * d;
    const std::int64_t sharded = job.num_parameters - 50257 * d - replicated;
    EXPECT_EQ(state * dp * 32, 10 * (sharded + 2 * table + 32 * replicated));
    EXPECT_EQ(job.proof.peak_in_flight, (std::vector<int>{8, 7, 6, 5, 4, 3, 2, 1}));
  }
}

}  // namespace
}  // namespace tessera
