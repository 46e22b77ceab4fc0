// Runs of several ranks that do not see the same files: as on machines with disks of their own.
#include <gtest/gtest.h>

#include "tessera/checkpoint/checkpoint.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

class TrainerRanksTest : public testing::Test {
 protected:
  TrainerRanksTest() {
    run.config.parallel.dp = 2;
    run.config.train.out = (run.path() / "run").string();
  }

  // With `other` for rank 1.
  void train_both(const RunConfig& other, bool resume = false) {
    run_ranks(run.config, false, [&](Communicator* world) {
      train(world->rank() == 1 ? other : run.config, resume, {}, world);
    });
  }
  // A corpus beside the run's own, with a token that is none.
  std::string damaged_copy(const std::string& name, std::size_t count, std::size_t at) {
    std::vector<std::int32_t> tokens = tiny_tokens(count);
    tokens[at] = kTinyVocab;
    write_corpus(run.path() / name, tokens);
    return (run.path() / name).string();
  }

  TinyRun run;
};

TEST_F(TrainerRanksTest, AResumeFromDifferentCheckpointsIsRefused) {
  train_both(run.config);
  run.config.train.steps = 14;
  RunConfig other = run.config;
  other.train.out = (run.path() / "disk of its own").string();
  expect_error([&] { train_both(other, true); },
               {"rank 1", "disk of its own", "is none here and step-00000012 on rank 0"});
  train_both(run.config, true);
}

TEST_F(TrainerRanksTest, AnyRankMayBeAskedToStop) {
  run_ranks(run.config, false, [&](Communicator* world) {
    int asked = 0;
    TrainCallbacks callbacks;
    if (world->rank() == 1) callbacks.stop_requested = [&] { return ++asked >= 3; };
    const TrainSummary summary = train(run.config, false, callbacks, world);
    EXPECT_TRUE(summary.stopped_early);
    EXPECT_EQ(summary.steps_done, 3);
  });
  EXPECT_TRUE(std::filesystem::exists(run.path() / "run" / "step-00000003"));
}

TEST_F(TrainerRanksTest, BadTokensOfOneRankEndTheRun) {
  run.config.train.steps = 100;
  run.config.schedule.decay_steps = 100;
  run.config.train.seed = 5;
  RunConfig other = run.config;
  other.data.prefix = damaged_copy("damaged", 3000, 1000);
  expect_error([&] { train_both(other); }, {"rank 1", "damaged.bin", "token 1000 is id 61"});
  EXPECT_GT(run.reports("run").size(), 0u) << "the seed should not put the bad sample first";
  EXPECT_EQ(find_latest_checkpoint(run.path() / "run"), std::nullopt);
}

TEST_F(TrainerRanksTest, BadTokensOfAllRanksEndTheRunButKeepItsSteps) {
  run.config.train.steps = 100;
  run.config.schedule.decay_steps = 100;
  run.config.train.seed = 5;
  run.config.data.prefix = damaged_copy("damaged", 3000, 1000);
  const auto train_all = [&] {
    run_ranks(run.config, false, [&](Communicator* world) {
      try {
        train(run.config, false, {}, world);
      } catch (const Error&) {  // whoever ends now ends the others
        EXPECT_TRUE(find_latest_checkpoint(run.path() / "run").has_value()) << "rank " << world->rank();
        throw;
      }
    });
  };
  expect_error(train_all, {"damaged.bin", "token 1000 is id 61"});
  const auto newest = find_latest_checkpoint(run.path() / "run");
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(LoadedCheckpoint(*newest).info().step, static_cast<std::int64_t>(run.reports("run").size()));
}

TEST_F(TrainerRanksTest, BadValidationTokensOfOneRankEndTheRun) {
  write_corpus(run.path() / "valid", tiny_tokens(500));
  run.config.data.valid_prefix = (run.path() / "valid").string();
  RunConfig other = run.config;
  other.data.valid_prefix = damaged_copy("damaged", 500, 20);
  expect_error([&] { train_both(other); }, {"rank 1", "damaged.bin", "token 20 is id 61"});
}

// Saving takes all ranks, and the others do not come to it.
TEST_F(TrainerRanksTest, AnEvaluationThatFailsOnOneRankSaysWhyAndSavesNothing) {
  run.config.train.eval_every = 1;
  const auto train_with_failing_rank = [&] {
    run_ranks(run.config, false, [&](Communicator* world) {
      int asked = 0;
      TrainCallbacks callbacks;
      if (world->rank() == 1) {
        callbacks.stop_requested = [&] {
          TS_CHECK(++asked < 4, "no more");  // after the second step, and then in its evaluation
          return false;
        };
      }
      train(run.config, false, callbacks, world);
    });
  };
  expect_error(train_with_failing_rank, {"rank 1: no more"});
  EXPECT_EQ(find_latest_checkpoint(run.path() / "run"), std::nullopt);
}

}  // namespace
}  // namespace tessera
