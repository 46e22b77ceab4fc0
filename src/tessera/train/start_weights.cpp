#include "tessera/train/start_weights.h"

#include "tessera/train/same_model.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

using Message = std::function<void(const std::string&)>;

// Models that are not all expressed here, such as those with scaled angles, may have weights of use.
std::optional<SavedModel> model_beside(const std::string& weights, const Message& message) {
  try {
    return find_saved_model(weights);
  } catch (const Error& e) {
    message(fmt::format("model.weights = {}: only shapes are compared, as {}", weights, e.what()));
    return std::nullopt;
  }
}

}  // namespace

void check_start_weights(const ModelKeys& model) {
  if (model.weights.empty()) return;
  TS_CHECK(std::filesystem::exists(model.weights), "model.weights = {}: no such file or folder",
           model.weights);
  newest_weights(model.weights);  // for what it refuses
}

void start_weights(const RunConfig& config, const Model& model, const WeightStore& store,
                   std::span<const Parameter> parameters, const Message& message) {
  const std::string& weights = config.model.weights;
  if (weights.empty()) {
    return initialize_weights(store, parameters, static_cast<std::uint64_t>(config.train.seed));
  }
  if (std::filesystem::is_directory(weights)) say_broken_checkpoints(weights, message);
  if (const auto saved = model_beside(weights, message)) {
    check_weights_suit(saved->model->config_json(), model.config_json(), weights, message);
  }
  const std::filesystem::path used = newest_weights(weights);
  load_weights_from(store, model, parameters, used);
  message("starting from the weights in " + used.string());
}

}  // namespace tessera
