#include "tessera/train/saved_model.h"

#include <nlohmann/json.hpp>

#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/trainer.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

bool is_json_object(const std::string& text) {
  try {
    return parse_json(text).is_object();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

using Json = nlohmann::json;

SavedModel open_checkpoint(const std::filesystem::path& folder) {
  const LoadedCheckpoint checkpoint(folder);
  const auto& properties = checkpoint.info().properties;
  const auto model = properties.find(kModelConfigProperty);
  const std::string source = (folder / kManifestName).string();
  TS_CHECK(model != properties.end(), "{}: property '{}' is missing", source, kModelConfigProperty);
  SavedModel saved;
  saved.weights = folder;
  saved.model = parse_model_config(model->second, source);
  if (const auto run = properties.find(kRunConfigProperty); run != properties.end()) {
    RunConfig config;
    apply_yaml(config, run->second, source);
    saved.tokenizer = config.data.tokenizer;
    saved.run = config;
  }
  if (const auto digest = properties.find(kTokenizerProperty); digest != properties.end()) {
    saved.tokenizer_digest = digest->second;
  }
  if (const auto ids = properties.find(kTokenIdsProperty); ids != properties.end()) {
    TS_CHECK(is_json_object(ids->second), "{}: property '{}' is {}, expected a JSON object", source,
             kTokenIdsProperty, ids->second);
    saved.token_ids = ids->second;
  }
  return saved;
}

}  // namespace

SavedModel open_saved_model(const std::filesystem::path& path,
                            const std::function<void(const std::string&)>& message) {
  TS_CHECK(std::filesystem::is_directory(path),
           "{} is not a folder: expected a run, a checkpoint or a Hugging Face model", path.string());
  say_broken_checkpoints(path, message);
  std::optional<SavedModel> saved = find_saved_model(path);
  TS_CHECK(
      saved.has_value(),
      "{} holds no model: expected step-* checkpoints, a manifest.json, or a config.json with safetensors",
      path.string());
  if (is_another_tokenizer(saved->tokenizer, saved->tokenizer_digest)) {
    message(fmt::format("{} is not the tokenizer that {} was trained with: its files have changed since",
                        saved->tokenizer, path.string()));
  }
  return std::move(*saved);
}

void say_broken_checkpoints(const std::filesystem::path& run_dir,
                            const std::function<void(const std::string&)>& message) {
  for (const auto& [step, folder] : list_broken_checkpoints(run_dir)) {
    message(fmt::format("passing over {}: it has no {}", folder.string(), kManifestName));
  }
}

std::optional<SavedModel> find_saved_model(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  const std::filesystem::path newest = newest_weights(path);
  if (std::filesystem::exists(newest / kManifestName)) return open_checkpoint(newest);
  if (!std::filesystem::exists(path / "config.json")) return std::nullopt;
  SavedModel saved;
  saved.weights = path;
  saved.model = load_model_config(path);
  saved.token_ids = token_ids_of(path);
  if (!tokenizer_files(path).empty()) saved.tokenizer = path.string();
  return saved;
}

std::string token_ids_of(const std::filesystem::path& config) {
  const Json read = parse_json(read_file(model_config_file(config)));
  Json ids = Json::object();
  for (const char* name : {"bos_token_id", "eos_token_id"})
    if (read.contains(name)) ids[name] = read[name];
  return ids.empty() ? "" : ids.dump();
}

std::string with_token_ids(const std::string& config_json, const std::string& token_ids) {
  if (token_ids.empty()) return config_json;
  Json config = parse_json(config_json);
  config.update(parse_json(token_ids));
  return config.dump(2) + "\n";
}

WeightHolder load_weights(const SavedModel& saved, Device& device) {
  BuiltGraph built = build_logits_graph(*saved.model, {1, 1}, DType::f32);
  WeightHolder holder{make_executor(device, std::move(built.graph)), std::move(built.parameters)};
  load_weights_from(WeightStore(*holder.executor), *saved.model, holder.parameters, saved.weights);
  return holder;
}

}  // namespace tessera
