// The folder of a run: which one may be written into, and what a resume from it refuses, says and changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "train/tiny_run.h"

namespace tessera {
namespace {

TEST(TrainerFolderTest, AFolderWithCheckpointsNeedsResume) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  const std::string metrics = bytes_of(run.path() / "run" / "metrics.jsonl");
  expect_error([&] { run.train_into("run"); }, {(run.path() / "run").string(), "step-00000002", "--resume"});
  EXPECT_EQ(bytes_of(run.path() / "run" / "metrics.jsonl"), metrics);
}

TEST(TrainerFolderTest, ResumingAFinishedRunReportsItsLoss) {
  TinyRun run;
  const TrainSummary first = run.train_into("run");
  const std::string metrics = bytes_of(run.path() / "run" / "metrics.jsonl");
  const TrainSummary again = run.train_into("run", true);
  EXPECT_EQ(again.steps_done, 12);
  EXPECT_EQ(again.last_loss, first.last_loss);
  EXPECT_EQ(again.last_eval_loss, first.last_eval_loss);
  EXPECT_EQ(again.checkpoint, first.checkpoint);
  EXPECT_EQ(bytes_of(run.path() / "run" / "metrics.jsonl"), metrics);
}

// As it was killed between its last checkpoint and its end.
TEST(TrainerFolderTest, ResumingAFinishedRunDeletesWhatItWasToDelete) {
  TinyRun run;
  run.config.train.save_every = 4;
  run.config.train.keep_last = 0;
  run.train_into("run");
  const auto folder = run.path() / "run";
  ASSERT_EQ(list_checkpoints(folder).size(), 3u);
  std::filesystem::copy(folder / "step-00000004", folder / "step-00000002.partial");
  run.config.train.keep_last = 2;
  run.train_into("run", true);
  EXPECT_FALSE(std::filesystem::exists(folder / "step-00000002.partial"));
  EXPECT_EQ(list_checkpoints(folder).size(), 2u);
  EXPECT_EQ(find_latest_checkpoint(folder), folder / "step-00000012");
}

TEST(TrainerFolderTest, ResumingWithNothingToResumeStartsAtTheBeginning) {
  TinyRun run;
  run.train_into("plain");
  run.train_into("resumed", true);
  expect_same_bits(run, "plain", "resumed");
}

TEST(TrainerFolderTest, ResumeRefusesAnotherModelOrOtherSamples) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.global_batch = 8;
  expect_error([&] { run.train_into("run", true); },
               {"train.global_batch = 8", "step-00000002", "was trained with 4"});
  run.config.train.global_batch = 4;
  run.config.train.seed += 1;
  expect_error([&] { run.train_into("run", true); }, {"train.seed = ", "step-00000002", "other samples"});
  run.config.train.seed -= 1;
  run.config.train.seq_len = 8;
  run.config.model.architecture.max_positions = 16;  // the same model
  expect_error([&] { run.train_into("run", true); }, {"train.seq_len = 8", "was trained with 16"});
  run.config.train.seq_len = 16;
  run.config.model.architecture.ffn_size = 64;
  expect_error([&] { run.train_into("run", true); }, {"step-00000002", "another model"});
  run.config.model.architecture.ffn_size = 48;
  run.config.optimizer.name = OptimizerName::lamb;
  expect_error([&] { run.train_into("run", true); },
               {"optimizer.name = lamb", "step-00000002 was trained with adamw"});
  run.config.optimizer.name = OptimizerName::adamw;
  write_corpus(run.path() / "corpus", tiny_tokens(2000));
  expect_error([&] { run.train_into("run", true); }, {"the data have", "step-00000002 was trained on"});
}

TEST(TrainerFolderTest, ResumeSaysWhatHasChanged) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 3;
  run.config.optimizer.lr = 0.005;
  std::vector<std::string> changes;
  const auto resume = [&] {
    changes.clear();
    train(run.config, true, {.message = [&](const std::string& text) {
            if (text.starts_with("changed since: ")) changes.push_back(text);
          }});
  };
  resume();  // the rates fall until step 12, as before
  EXPECT_EQ(changes, std::vector<std::string>{"changed since: optimizer.lr: 0.01 -> 0.005"});
  run.config.train.steps = 4;
  run.config.schedule.decay_steps = 0;  // until the last step
  resume();
  EXPECT_EQ(changes, (std::vector<std::string>{"changed since: train.steps: 3 -> 4",
                                               "changed since: schedule.decay_steps: 12 -> 0"}));
  run.config.train.steps = 5;
  resume();
  EXPECT_EQ(changes,
            (std::vector<std::string>{
                "changed since: train.steps: 4 -> 5",
                "changed since: the learning rates, by train.steps; schedule.decay_steps=4 keeps them"}));
}

TEST(TrainerFolderTest, ResumeOfBrokenCheckpointsAloneDoesNotStartAnew) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  const std::string metrics = bytes_of(run.path() / "run" / "metrics.jsonl");
  std::filesystem::remove(run.path() / "run" / "step-00000002" / "manifest.json");
  expect_error([&] { run.train_into("run", true); }, {"--resume", "step-00000002 has no manifest.json"});
  EXPECT_EQ(bytes_of(run.path() / "run" / "metrics.jsonl"), metrics);
}

TEST(TrainerFolderTest, AManifestThatContradictsItselfIsRefused) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  const auto folder = run.path() / "run" / "step-00000002", manifest = folder / "manifest.json";
  const std::string good = bytes_of(manifest);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(manifest) << text.replace(at, from.size(), to);
  };
  run.config.train.steps = 4;
  with("\"step\": 2", "\"step\": 3");
  expect_error([&] { run.train_into("run", true); }, {"manifest.json: found step 3", "folder's name"});
  with("\"consumed_samples\": 8", "\"consumed_samples\": 4");
  expect_error([&] { run.train_into("run", true); },
               {"manifest.json: found 4 samples after 2 steps, expected 2 times train.global_batch = 4"});
  with("\"config.json\": \"{", "\"config.json\": \"{{");
  expect_error([&] { run.train_into("run", true); }, {"manifest.json: not a JSON file"});
  std::ofstream(manifest) << good;
  run.train_into("run", true);
}

TEST(TrainerFolderTest, ALogThatIsGoneAtTheEndIsSaid) {
  TinyRun run;
  run.config.train.out = (run.path() / "run").string();
  TrainCallbacks callbacks;
  callbacks.step = [&](const StepReport& report) {
    if (report.step == 12) std::filesystem::remove(run.path() / "run" / "metrics.jsonl");
  };
  expect_error([&] { train(run.config, false, callbacks); }, {"metrics.jsonl is gone"});
  EXPECT_TRUE(std::filesystem::exists(run.path() / "run" / "step-00000012"));
}

TEST(TrainerFolderTest, WeightsOfAnotherModelAreRefusedAndSlipsSaid) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("first");
  run.config.model.weights = (run.path() / "first").string();
  run.config.model.architecture.attention = {.heads = 8, .kv_heads = 4};
  expect_error([&] { run.train_into("second"); },
               {"model.weights = ", "first", "'num_attention_heads' is 4 there and 8 here"});
  run.config.model.architecture.attention = {.heads = 4, .kv_heads = 2, .rope_theta = 500};
  run.config.optimizer.no_decay = {"norm", "bais"};
  std::string said;
  run.config.train.out = (run.path() / "second").string();
  train(run.config, false, {.message = [&](const std::string& text) { said += text + "\n"; }});
  EXPECT_NE(said.find("'rope_theta' is 10000 there and 500 here"), std::string::npos) << said;
  EXPECT_NE(said.find("no_decay: no parameter has 'bais' in its name"), std::string::npos) << said;
  EXPECT_EQ(said.find("'norm'"), std::string::npos) << said;
}

TEST(TrainerFolderTest, ADamagedCheckpointIsRefused) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train_into("run");
  const auto file = run.path() / "run" / "step-00000002" / "optimizer.safetensors";
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  run.config.train.steps = 4;
  expect_error([&] { run.train_into("run", true); }, {file.string(), "damaged"});
}

}  // namespace
}  // namespace tessera
