// What a model reads of a batch beside ids and targets: named when it is missing, and never made up.
#include "tessera/train/micro_batch.h"

#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/models/bert.h"
#include "tessera/models/gpt2.h"
#include "tessera/train/generate.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

class BertBatchTest : public testing::Test {
 protected:
  static BertConfig config() {
    return {.vocab_size = 32, .hidden_size = 16, .layers = 1, .heads = 2, .ffn_size = 32, .max_positions = 8};
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::unique_ptr<Model> model_ = make_bert(config());
  TrainingStep step_{*model_, {.shape = {2, 4}}, Layout{}, 0, *device_};
  std::vector<std::int32_t> ids_ = std::vector<std::int32_t>(8, 3), targets_ = {-1, 5, -1, -1, -1, -1, 6, -1},
                            types_ = {0, 0, 1, 1, 0, 1, 1, 1}, counts_ = {4, 3}, next_ = {0, 1};
};

TEST_F(BertBatchTest, WhatIsMissingIsNamed) {
  expect_error([&] { step_.run(ids_, targets_, 0, 1e-3); }, {"'key_counts'", "does not have"});
}

TEST_F(BertBatchTest, PredictionsWithoutATargetAreRefused) {
  const std::vector<std::int32_t> none(2, -1);
  const std::vector<BatchInput> inputs = {{kIdsInput, ids_},
                                          {kTargetsInput, targets_},
                                          {kTokenTypesInput, types_},
                                          {kKeyCountsInput, counts_},
                                          {kNextSentenceInput, none}};
  expect_error([&] { step_.run(inputs, 0, 1e-3); }, {"no scored token", "'next_sentence'"});
}

TEST_F(BertBatchTest, GenerationIsRefused) {
  expect_error([&] { Generator(*model_, DType::f32, *device_, step_.executor(), 4); },
               {"does not continue texts"});
}

// The loss of the first step is that of an untrained model: uniform over words, and over both answers. Tokens
// behind the count do not change it.
TEST_F(BertBatchTest, PaddingChangesNothing) {
  const std::vector<BatchInput> inputs = {{kNextSentenceInput, next_},
                                          {kKeyCountsInput, counts_},
                                          {kIdsInput, ids_},
                                          {kTokenTypesInput, types_},
                                          {kTargetsInput, targets_}};
  initialize_weights(step_.weights(), step_.parameters(), 7);
  const double loss = step_.accumulate_gradients(inputs, 0);
  EXPECT_NEAR(loss, std::log(32.0) + std::log(2.0), 0.1);
  ids_[7] = 9;
  EXPECT_EQ(step_.accumulate_gradients(inputs, 0), loss);
  ids_[5] = 9;
  EXPECT_NE(step_.accumulate_gradients(inputs, 0), loss);
}

// The loss of one batch with the same weights, in one step of a run.
class DropoutKeyTest : public testing::Test {
 protected:
  double loss(std::uint64_t seed, std::int64_t step_number) const {
    const std::unique_ptr<Model> model = make_gpt2({.vocab_size = 32,
                                                    .hidden_size = 16,
                                                    .layers = 1,
                                                    .heads = 2,
                                                    .ffn_size = 32,
                                                    .max_positions = 8,
                                                    .residual_dropout = 0.5});
    TrainingStep step(*model, {.shape = {2, 8}}, Layout{}, seed, *device_);
    initialize_weights(step.weights(), step.parameters(), 7);
    const std::vector<std::int32_t> ids(16, 3), targets(16, 5);
    return step.run(ids, targets, step_number, 1e-3).loss;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(DropoutKeyTest, EveryStepAndEverySeedDropOtherElements) {
  EXPECT_EQ(loss(1, 0), loss(1, 0));
  EXPECT_NE(loss(1, 0), loss(1, 1));
  EXPECT_NE(loss(1, 0), loss(2, 0));
  EXPECT_NE(loss(1, 0), loss(1 + (std::uint64_t{1} << 32), 0));
}

}  // namespace
}  // namespace tessera
