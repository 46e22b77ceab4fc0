#include "tessera/train/same_model.h"

#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"

namespace tessera {

void check_same_model(const std::string& saved, const std::string& described, const std::string& checkpoint) {
  if (saved == described) return;
  const nlohmann::json there = parse_json(saved), here = parse_json(described);
  std::set<std::string> keys;
  for (const nlohmann::json* config : {&there, &here}) {
    for (const auto& entry : config->items()) keys.insert(entry.key());
  }
  std::string differing;
  for (const std::string& key : keys) {
    const auto value = [&](const nlohmann::json& config) {
      return config.contains(key) ? config[key].dump() : "absent";
    };
    if (value(there) == value(here)) continue;
    differing += fmt::format("{} '{}' is {} there and {} here", differing.empty() ? ":" : ",", key,
                             value(there), value(here));
  }
  fail("{} was trained with another model than this config describes{}", checkpoint, differing);
}

}  // namespace tessera
