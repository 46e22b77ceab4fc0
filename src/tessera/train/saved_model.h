// SavedModel: a model on disk, whatever wrote it: a Hugging Face folder, a run's folder (its newest
// checkpoint) or one checkpoint. Opened by eval, generate and convert.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/models/model.h"
#include "tessera/runtime/executor.h"
#include "tessera/train/run_config.h"

namespace tessera {

struct SavedModel {
  std::filesystem::path weights;  // what load_weights_from takes
  std::unique_ptr<Model> model;
  std::optional<RunConfig> run;  // what it was trained with, if we trained it
  std::string tokenizer;         // what open_tokenizer takes; empty if unknown
  std::string tokenizer_digest;  // of the one it was trained with; empty if unknown
  std::string token_ids;         // of a config.json, see with_token_ids; empty if unknown
};

// The error says what the folder would need to be one of the three. `message` is told what is passed over,
// and of a tokenizer that has been replaced.
SavedModel open_saved_model(
    const std::filesystem::path& path,
    const std::function<void(const std::string&)>& message = [](const auto&) {});

// One message for each checkpoint of a run that lacks its manifest.
void say_broken_checkpoints(const std::filesystem::path& run_dir,
                            const std::function<void(const std::string&)>& message);

// None where weights lie alone: in a file, or in a folder without config.json.
std::optional<SavedModel> find_saved_model(const std::filesystem::path& path);

// Under which a checkpoint keeps token_ids.
inline constexpr const char* kTokenIdsProperty = "token_ids";

// The ids of the tokens that begin and end texts, a JSON object; empty if the config.json (or its folder's)
// has none. No model here reads them, but transformers stops generating at them.
std::string token_ids_of(const std::filesystem::path& config);
// The config.json with these ids.
std::string with_token_ids(const std::string& config_json, const std::string& token_ids);

// An executor that holds the model's weights in fp32, and a forward graph of a few tokens.
struct WeightHolder {
  std::unique_ptr<Executor> executor;
  std::vector<Parameter> parameters;
};
WeightHolder load_weights(const SavedModel& saved, Device& device);

}  // namespace tessera
