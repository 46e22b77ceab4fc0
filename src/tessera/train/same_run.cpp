#include "tessera/train/same_run.h"

#include <utility>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/train/config_schema.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/same_model.h"
#include "tessera/train/same_samples.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

// All of it is allowed, and a slip of the pen among it costs a night. Where a run lies needs no word, nor how
// far it goes, if the learning rates stay what they were.
void say_what_has_changed(RunConfig before, const RunConfig& now,
                          const std::function<void(const std::string&)>& message) {
  const auto falls_until = [](const RunConfig& config) {
    const bool falls = config.schedule.decay != DecayName::constant;
    return falls ? decay_end(config.schedule, config.train.steps) : 0;
  };
  const std::int64_t fell_until = falls_until(before);
  if (fell_until == falls_until(now)) before.train.steps = now.train.steps;
  before.train.out = now.train.out;
  for (const std::string& line : describe_changes(before, now)) message("changed since: " + line);
  if (before.train.steps != now.train.steps && before.schedule == now.schedule) {
    message(fmt::format(
        "changed since: the learning rates, by train.steps; schedule.decay_steps={} keeps them", fell_until));
  }
}

}  // namespace

void check_same_run(const std::filesystem::path& checkpoint, const RunConfig& now, const Model& model,
                    const std::function<void(const std::string&)>& message) {
  const LoadedCheckpoint loaded(checkpoint);
  const auto& properties = loaded.info().properties;
  const auto saved = properties.find(kModelConfigProperty);
  TS_CHECK(saved != properties.end(), "{}: found no {}, expected the model's config",
           (checkpoint / kManifestName).string(), kModelConfigProperty);
  parse_model_config(saved->second, (checkpoint / kManifestName).string());  // which names what it refuses
  check_same_model(saved->second, model.config_json(), checkpoint.string());
  const auto run = properties.find(kRunConfigProperty);
  if (run == properties.end()) return;
  RunConfig before;
  apply_yaml(before, run->second, (checkpoint / kManifestName).string());
  check_same_samples(before, now, checkpoint.string());
  TS_CHECK(
      before.optimizer.name == now.optimizer.name,
      "optimizer.name = {}, but {} was trained with {}, whose state is of no use to it. To train on from "
      "its weights alone, start a new run with model.weights",
      optimizer_text(now.optimizer.name), checkpoint.string(), optimizer_text(before.optimizer.name));
  say_what_has_changed(std::move(before), now, message);
  const auto tokenizer = properties.find(kTokenizerProperty);
  if (tokenizer != properties.end() && is_another_tokenizer(now.data.tokenizer, tokenizer->second))
    message(fmt::format("changed since: the files of data.tokenizer = {}", now.data.tokenizer));
}

void check_same_corpora(const std::filesystem::path& checkpoint, const DataKeys& now,
                        const std::string& corpora) {
  const LoadedCheckpoint loaded(checkpoint);
  const auto& properties = loaded.info().properties;
  const auto before = properties.find(kCorporaProperty);
  TS_CHECK(before == properties.end() || before->second == corpora,
           "{}: the corpora have {}, but {} was trained on {}: resuming would see other samples",
           now.blend.empty() ? "data.prefix" : "data.blend", corpora, checkpoint.string(), before->second);
}

}  // namespace tessera
