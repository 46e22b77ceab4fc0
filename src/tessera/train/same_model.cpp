#include "tessera/train/same_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

// Keys with which training may go on otherwise. Sizes of tables are held to the weights' shapes elsewhere.
constexpr std::array<std::string_view, 19> kMayDiffer = {"architectures",
                                                         "attention_dropout",
                                                         "attention_probs_dropout_prob",
                                                         "attn_pdrop",
                                                         "embd_pdrop",
                                                         "ffn_pdrop",
                                                         "hidden_dropout",
                                                         "hidden_dropout_prob",
                                                         "initializer_range",
                                                         "max_position_embeddings",
                                                         "n_positions",
                                                         "pad_token_id",
                                                         "padded_vocab_size",
                                                         "resid_pdrop",
                                                         "rope_parameters",
                                                         "rope_theta",
                                                         "rotary_emb_base",
                                                         "type_vocab_size",
                                                         "vocab_size"};

struct Differences {
  std::vector<std::string> wrong, allowed;
};

Differences differences(const std::string& saved, const std::string& described) {
  Differences found;
  if (saved == described) return found;
  const nlohmann::json there = parse_json(saved), here = parse_json(described);
  std::set<std::string> keys;
  for (const nlohmann::json* config : {&there, &here}) {
    for (const auto& entry : config->items()) keys.insert(entry.key());
  }
  for (const std::string& key : keys) {
    const auto value = [&](const nlohmann::json& config) {
      return config.contains(key) ? config[key].dump() : "absent";
    };
    if (value(there) == value(here)) continue;
    const bool may_differ = std::ranges::find(kMayDiffer, key) != kMayDiffer.end();
    (may_differ ? found.allowed : found.wrong)
        .push_back(fmt::format("'{}' is {} there and {} here", key, value(there), value(here)));
  }
  return found;
}

}  // namespace

void check_same_model(const std::string& saved, const std::string& described, const std::string& checkpoint) {
  Differences found = differences(saved, described);
  found.wrong.insert(found.wrong.end(), found.allowed.begin(), found.allowed.end());
  std::ranges::sort(found.wrong);
  TS_CHECK(found.wrong.empty(), "{} was trained with another model than this config describes: {}",
           checkpoint, joined(found.wrong, ", "));
}

void check_weights_suit(const std::string& saved, const std::string& described, const std::string& weights,
                        const std::function<void(const std::string&)>& message) {
  const Differences found = differences(saved, described);
  TS_CHECK(found.wrong.empty(), "model.weights = {} are of another model than this config describes: {}",
           weights, joined(found.wrong, ", "));
  for (const std::string& difference : found.allowed) message(fmt::format("{}: {}", weights, difference));
}

}  // namespace tessera
