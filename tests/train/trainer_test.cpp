// Whole runs through train(): that they learn, and that nothing which should not matter changes a bit.
#include "tessera/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numbers>

#include "tessera/checkpoint/checkpoint.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

struct Variant {
  const char* name;
  bool gpt2;
  PrecisionName precision;
};
constexpr Variant kVariants[] = {{"llama_fp32", false, PrecisionName::fp32},
                                 {"llama_bf16", false, PrecisionName::bf16},
                                 {"gpt2_dropout_fp32", true, PrecisionName::fp32},
                                 {"gpt2_dropout_bf16", true, PrecisionName::bf16}};

class TrainerTest : public testing::TestWithParam<Variant> {
 protected:
  TrainerTest() {
    if (GetParam().gpt2) run.become_gpt2();
    run.config.precision = GetParam().precision;
  }
  TinyRun run;
};
INSTANTIATE_TEST_SUITE_P(Runs, TrainerTest, testing::ValuesIn(kVariants),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(TrainerTest, LossesFall) {
  run.config.train.steps = run.config.schedule.decay_steps = 60;
  const TrainSummary summary = run.train_into("run");
  const std::vector<double> losses = run.losses("run");
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_NEAR(losses.front(), std::log(static_cast<double>(kTinyVocab)), 0.1);  // it knows nothing yet
  EXPECT_LT(losses.back(), 0.75 * losses.front());
  EXPECT_EQ(summary.steps_done, 60);
  EXPECT_EQ(summary.last_loss, losses.back());
  EXPECT_LT(summary.last_eval_loss, 0.75 * losses.front());
  EXPECT_FALSE(summary.stopped_early);
  EXPECT_EQ(summary.checkpoint, (run.path() / "run" / "step-00000060").string());
  for (const char* file :
       {"run.yaml", "config.json", "plan.json", "metrics.jsonl", "loss.svg", "results.json", "report.html"})
    EXPECT_TRUE(std::filesystem::exists(run.path() / "run" / file)) << file;
}

// Half of the peak in the first of two steps of warm-up; half of it again half way down the cosine.
TEST_P(TrainerTest, EveryStepHasItsOwnLearningRate) {
  run.config.train.steps = run.config.schedule.decay_steps = 42;
  run.config.train.eval_every = 0;
  run.train_into("run");
  const std::vector<StepReport> reports = run.reports("run");
  ASSERT_EQ(reports.size(), 42u);
  const double peak = run.config.optimizer.lr;
  EXPECT_DOUBLE_EQ(reports[0].learning_rate, peak / 2);
  EXPECT_DOUBLE_EQ(reports[1].learning_rate, peak);
  EXPECT_DOUBLE_EQ(reports[2].learning_rate, peak);
  EXPECT_NEAR(reports[22].learning_rate, peak / 2, 1e-9 * peak);
  EXPECT_NEAR(reports[41].learning_rate, peak * (1 - std::cos(std::numbers::pi / 40)) / 2, 1e-9 * peak);
}

// With a rate of 0 the weights stay what they are.
TEST(TrainerDropoutTest, EvaluationDropsNothing) {
  TinyRun run;
  run.become_gpt2();
  run.config.optimizer.lr = 0;
  const TrainSummary dropped = run.train_into("dropped");
  std::ofstream(run.config.model.config)
      << R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 2,
      "n_head": 4, "n_positions": 16, "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0})";
  const TrainSummary whole = run.train_into("whole");
  EXPECT_NE(dropped.last_loss, whole.last_loss);
  EXPECT_EQ(dropped.last_eval_loss, whole.last_eval_loss);
}

TEST_P(TrainerTest, SameBitsRunToRunAndAtAnyThreadCount) {
  run.train_into("first");
  run.train_into("again");
  expect_same_bits(run, "first", "again");
  for (const std::int64_t threads : {2, 3}) {
    SCOPED_TRACE(threads);
    run.config.threads = threads;
    run.train_into("threads" + std::to_string(threads));
    expect_same_bits(run, "first", "threads" + std::to_string(threads));
  }
}

TEST_P(TrainerTest, AnotherSeedIsAnotherRun) {
  run.train_into("first");
  run.config.train.seed = 4321;
  run.train_into("other");
  EXPECT_NE(run.losses("first"), run.losses("other"));
}

TEST_P(TrainerTest, ResumingGivesTheBitsOfTheUninterruptedRun) {
  run.train_into("whole");
  run.config.train.steps = 5;  // the schedule's end is fixed by decay_steps
  run.train_into("parts");
  run.config.train.steps = 9;
  run.train_into("parts", true);
  run.config.train.steps = 12;
  const TrainSummary summary = run.train_into("parts", true);
  EXPECT_EQ(summary.steps_done, 12);
  expect_same_bits(run, "whole", "parts");
}

TEST_P(TrainerTest, ResumingFromFurtherBackTakesTheLostStepsAgain) {
  run.config.train.save_every = 5;
  run.config.train.keep_last = 0;
  run.train_into("whole");
  run.train_into("crashed");
  // As after a crash in step 8: the metrics are ahead of the newest checkpoint.
  for (const char* later : {"step-00000010", "step-00000012"})
    std::filesystem::remove_all(run.path() / "crashed" / later);
  run.train_into("crashed", true);
  expect_same_bits(run, "whole", "crashed");
}

TEST_P(TrainerTest, EvaluationDoesNotTouchTraining) {
  run.train_into("with");
  run.config.train.eval_every = 0;
  run.train_into("without");
  EXPECT_TRUE(run.reports("with").back().eval_loss.has_value());
  EXPECT_FALSE(run.reports("without").back().eval_loss.has_value());
  expect_same_bits(run, "with", "without");
}

TEST_P(TrainerTest, RecomputingGivesTheSameBits) {
  run.train_into("kept");
  for (const char* mode : {"selective", "full"}) {
    run.config.recompute = mode;
    run.train_into(mode);
    expect_same_bits(run, "kept", mode);
  }
}

TEST_P(TrainerTest, SavingOftenDoesNotTouchTraining) {
  run.train_into("seldom");
  run.config.train.save_every = 1;
  run.config.train.keep_last = 1;
  run.train_into("often");
  expect_same_bits(run, "seldom", "often");
  EXPECT_EQ(list_checkpoints(run.path() / "often").size(), 1u);
}

// Rounded by chance, but by the same chance every time.
TEST(TrainerBf16StateTest, SameBitsAtAnyThreadCountAndAfterAResume) {
  TinyRun run;
  run.config.precision = run.config.optimizer.state_dtype = PrecisionName::bf16;
  run.train_into("whole");
  run.config.threads = 3;
  run.config.train.steps = 5;
  run.train_into("parts");
  run.config.train.steps = 12;
  run.train_into("parts", true);
  expect_same_bits(run, "whole", "parts");
}

TEST(TrainerBatchTest, MicroBatchesAddUpToTheWholeBatch) {
  for (const bool gpt2 : {false, true}) {
    SCOPED_TRACE(gpt2);
    TinyRun run;
    if (gpt2) run.become_gpt2();  // which drops the same elements however the batch is cut
    run.config.train.micro_batch = 4;
    run.train_into("whole");
    run.config.train.micro_batch = 1;
    run.train_into("ones");
    const std::vector<double> whole = run.losses("whole"), ones = run.losses("ones");
    ASSERT_EQ(whole.size(), ones.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(ones[i], whole[i], 1e-5 * whole[i]) << i;
  }
}

// Who waits for a stop waits for the checkpoint alone.
TEST(TrainerStopTest, AnEvaluationIsGivenUp) {
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before);
    TinyRun run;
    const std::string name = before ? "before" : "meanwhile";
    run.config.train.out = (run.path() / name).string();
    int asked = 0;
    TrainCallbacks callbacks;
    // After steps 1 to 4, then after each of the evaluation's batches.
    callbacks.stop_requested = [&] { return ++asked >= (before ? 4 : 5); };
    const TrainSummary summary = train(run.config, false, callbacks);
    EXPECT_TRUE(summary.stopped_early);
    EXPECT_EQ(summary.steps_done, 4);
    EXPECT_EQ(asked, before ? 4 : 5);
    EXPECT_TRUE(std::isnan(summary.last_eval_loss));
    EXPECT_FALSE(run.reports(name).back().eval_loss.has_value());
    EXPECT_TRUE(std::filesystem::exists(run.path() / name / "step-00000004"));
  }
}

TEST(TrainerStopTest, StoppingSavesTheFinishedStep) {
  TinyRun run;
  run.train_into("whole");
  run.config.train.out = (run.path() / "stopped").string();
  int asked = 0;
  TrainCallbacks callbacks;
  callbacks.stop_requested = [&] { return ++asked == 8; };  // after step 7 and a batch of an evaluation
  const TrainSummary summary = train(run.config, false, callbacks);
  EXPECT_TRUE(summary.stopped_early);
  EXPECT_EQ(summary.steps_done, 7);
  EXPECT_EQ(summary.checkpoint, (run.path() / "stopped" / "step-00000007").string());
  run.train_into("stopped", true);
  expect_same_bits(run, "whole", "stopped");
}

// Into the corpus, where the first step does not meet it.
void put_a_bad_token(TinyRun& run) {
  std::vector<std::int32_t> tokens = tiny_tokens(3000);
  tokens[1000] = kTinyVocab;
  write_corpus(run.path() / "corpus", tokens);
  run.config.train.steps = 100;
  run.config.schedule.decay_steps = 100;
  run.config.train.seed = 5;
}

TEST(TrainerStopTest, BadTokensEndTheRunButKeepItsSteps) {
  TinyRun run;
  put_a_bad_token(run);
  expect_error([&] { run.train_into("run"); },
               {(run.path() / "corpus.bin").string(), "token 1000 is id 61", "vocabulary has 61 ids"});
  const std::size_t steps = run.reports("run").size();
  ASSERT_GT(steps, 0u) << "the seed should not put the bad sample first";
  const auto newest = find_latest_checkpoint(run.path() / "run");
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(LoadedCheckpoint(*newest).info().step, static_cast<std::int64_t>(steps));
}

TEST(TrainerStopTest, BadTokensAreNamedWhereTheStepsCannotBeSavedEither) {
  TinyRun run;
  put_a_bad_token(run);
  run.config.train.out = (run.path() / "run").string();
  TrainCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (report.step > 1) return;
    std::filesystem::rename(run.path() / "run", run.path() / "moved away");
    write_file(run.path() / "run", "no folder");
  };
  expect_error([&] { train(run.config, false, callbacks); },
               {"token 1000 is id 61", "; and the steps until then could not be saved: ", "/run"});
}

TEST(TrainerStopTest, BadValidationTokensEndTheRunButKeepItsSteps) {
  TinyRun run;
  std::vector<std::int32_t> tokens = tiny_tokens(500);
  tokens[20] = kTinyVocab;
  write_corpus(run.path() / "valid", tokens);
  run.config.data.valid_fraction = 0;
  run.train_into("whole");
  run.config.data.valid_fraction = DataKeys{}.valid_fraction;
  run.config.data.valid_prefix = (run.path() / "valid").string();
  run.config.train.eval_every = 5;
  expect_error([&] { run.train_into("run"); }, {(run.path() / "valid.bin").string(), "token 20 is id 61"});
  EXPECT_EQ(find_latest_checkpoint(run.path() / "run"), run.path() / "run" / "step-00000005");
  run.config.data.valid_prefix.clear();
  run.config.data.valid_fraction = 0;  // still all of the corpus is for training
  run.train_into("run", true);
  expect_same_bits(run, "whole", "run");
}

TEST(TrainerStopTest, ALossThatIsNotANumberEndsTheRunBeforeItIsSaved) {
  TinyRun run;
  run.config.optimizer.lr = 1e30;
  run.config.optimizer.clip_norm = 0;
  run.config.schedule.warmup_steps = 0;
  run.config.train.save_every = 1;
  expect_error([&] { run.train_into("run"); },
               {"step 2: loss is", "optimizer.lr", "run/step-00000001", "samples 4 to 7"});
  EXPECT_EQ(list_checkpoints(run.path() / "run").size(), 1u);
  EXPECT_EQ(run.reports("run").size(), 1u);
}

// The loss of such weights would not be a number, but no step asks for it any more.
TEST(TrainerStopTest, WeightsThatAreNotFiniteAreNotSaved) {
  TinyRun run;
  run.config.optimizer.lr = 3e38;
  run.config.optimizer.weight_decay = 2;
  run.config.schedule.warmup_steps = 0;
  run.config.train.steps = 1;
  expect_error([&] { run.train_into("run"); },
               {"embed.weight: element 0 is", "nan", "not saved", "optimizer.lr"});
  EXPECT_TRUE(list_checkpoints(run.path() / "run").empty());
}

// A config of a GPU runs on the CPU as well, and one line says what of it has no use there.
TEST(TrainerMessages, NameTheKeysOfAnotherDevice) {
  TinyRun run;
  run.config.train.steps = run.config.schedule.decay_steps = 2;
  const auto not_used = [&](const std::string& out) {
    run.config.train.out = (run.path() / out).string();
    std::vector<std::string> found;
    TrainCallbacks callbacks;
    callbacks.message = [&](const std::string& text) {
      if (text.starts_with("not used")) found.push_back(text);
    };
    run_ranks(run.config, false, [&](Communicator* world) { train(run.config, false, callbacks, world); });
    return found;
  };
  EXPECT_EQ(not_used("defaults"), std::vector<std::string>{});
  run.config.parallel.dp = 2;
  apply_overrides(run.config, std::vector<std::string>{"cuda.graphs=false", "cuda.tuning=no/such/file"});
  EXPECT_EQ(not_used("changed"),
            std::vector<std::string>{"not used without a GPU: cuda.graphs, cuda.tuning"});
}

TEST(TrainerStopTest, TheNullDeviceIsRefused) {
  TinyRun run;
  run.config.device = DeviceName::null;
  expect_error([&] { run.train_into("run"); }, {"device", "null", "expected cpu"});
  EXPECT_FALSE(std::filesystem::exists(run.path() / "run"));
}

}  // namespace
}  // namespace tessera
