// Event files read back by the real TensorBoard, which scripts/python_env.sh installs: the tests fail without
// it.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class TensorBoardTest : public ProgramTestFolder {
 protected:
  nlohmann::json read_events(const std::string& run) const {
    const std::filesystem::path source = TESSERA_SOURCE_DIR, python = source / "build/venv/bin/python";
    EXPECT_TRUE(std::filesystem::exists(python)) << python << " is missing: scripts/python_env.sh makes it";
    const ProgramResult result = run_program(
        python.string(),
        {(source / "tests/cli/read_events.py").string(), (path() / run / "tensorboard").string()}, path());
    EXPECT_EQ(result.exit_code, 0) << result.text();
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  // Every line of metrics.jsonl is there once, in order, to the float.
  void expect_scalar(const nlohmann::json& events, const std::string& run, const std::string& tag,
                     const std::function<std::optional<double>(const StepReport&)>& value) const {
    SCOPED_TRACE(tag);
    std::vector<std::pair<std::int64_t, float>> wanted, found;
    for (const StepReport& report : read_jsonl_log(path() / run / "metrics.jsonl")) {
      if (const std::optional<double> x = value(report))
        wanted.emplace_back(report.step, static_cast<float>(*x));
    }
    EXPECT_FALSE(wanted.empty());
    ASSERT_TRUE(events.at("scalars").contains(tag)) << events.dump();
    for (const auto& point : events.at("scalars").at(tag))
      found.emplace_back(point[0].get<std::int64_t>(), point[1].get<float>());
    EXPECT_EQ(found, wanted);
  }

  void expect_nxd_tags(const std::string& run) const {
    const nlohmann::json events = read_events(run);
    expect_scalar(events, run, "step loss", [](auto& r) { return r.loss; });
    expect_scalar(events, run, "learning rate", [](auto& r) { return r.learning_rate; });
    expect_scalar(events, run, "throughput", [](auto& r) { return r.sequences_per_second; });
    expect_scalar(events, run, "grad-norm", [](auto& r) { return r.grad_norm; });
    expect_scalar(events, run, "validation loss", [](auto& r) { return r.eval_loss; });
    EXPECT_EQ(events.at("scalars").size(), 5u);
    EXPECT_EQ(events.at("texts").at("config/text_summary"),
              "```\n" + bytes_of(path() / run / "run.yaml") + "\n```\n");
    EXPECT_EQ(events.at("text_plugin"), std::vector<std::string>{"config/text_summary"});
  }
};

TEST_F(TensorBoardTest, ReadsTheTagsOfTheScripts) {
  expect_success({"train", "run.yaml"});
  expect_nxd_tags("run");
}

TEST_F(TensorBoardTest, ReadsTheTagsOfGpt3) {
  expect_success({"train", "run.yaml", "metrics.tags=nemo", "parallel.tp=2"});
  const nlohmann::json events = read_events("run");
  expect_scalar(events, "run", "reduced_train_loss", [](auto& r) { return r.loss; });
  expect_scalar(events, "run", "lr", [](auto& r) { return r.learning_rate; });
  expect_scalar(events, "run", "gradient_norm", [](auto& r) { return r.grad_norm; });
  expect_scalar(events, "run", "parameter_norm", [](auto& r) { return r.parameter_norm; });
  expect_scalar(events, "run", "global_step", [](auto& r) { return static_cast<double>(r.step); });
  expect_scalar(events, "run", "consumed_samples",
                [](auto& r) { return static_cast<double>(r.consumed_samples); });
  expect_scalar(events, "run", "throughput", [](auto& r) { return r.sequences_per_second; });
  expect_scalar(events, "run", "throughput_peak", [](auto& r) { return r.peak_sequences_per_second; });
  expect_scalar(events, "run", "val_loss", [](auto& r) { return r.eval_loss; });
  EXPECT_EQ(events.at("scalars").size(), 9u);
}

// As after a crash in step 11: the events are ahead of the newest checkpoint.
TEST_F(TensorBoardTest, AResumedRunRepeatsNoStep) {
  expect_success({"train", "run.yaml"});
  std::filesystem::remove_all(path() / "run/step-00000012");
  expect_success({"train", "run.yaml", "--resume"});
  expect_success({"train", "run.yaml", "--resume", "train.steps=15"});
  EXPECT_EQ(names_in(path() / "run/tensorboard").size(), 3u);
  EXPECT_EQ(read_jsonl_log(path() / "run/metrics.jsonl").size(), 15u);
  expect_nxd_tags("run");
}

TEST_F(TensorBoardTest, CanBeTurnedOff) {
  const ProgramResult result = expect_success({"train", "run.yaml", "metrics.tensorboard=false"});
  EXPECT_FALSE(std::filesystem::exists(path() / "run/tensorboard"));
  EXPECT_EQ(result.out.find("tensorboard"), std::string::npos);
}

}  // namespace
}  // namespace tessera
