// LayoutChoice: a golden model and the layout it is checked on. All of them, and a few that cover every pair
// of choices; used by the test of the few and by golden_layouts, which runs all.
#pragma once

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/train/run_config.h"

namespace tessera {

// What may be chosen, and its values as a user writes them; "" stands for the model.
struct LayoutKey {
  std::string key;
  std::vector<std::string> values;
};
using LayoutChoice = std::vector<std::size_t>;  // the index of a value, by key

inline std::vector<LayoutKey> layout_keys(const std::vector<std::string>& models) {
  return {{"", models},
          {"parallel.tp", {"1", "2", "4", "8"}},
          {"parallel.pp", {"1", "2", "4"}},
          {"parallel.dp", {"1", "2", "4"}},
          {"parallel.sequence", {"false", "true"}},
          {"parallel.zero1", {"false", "true"}},
          {"pipeline.schedule", {"gpipe", "1f1b", "interleaved"}},
          {"recompute", {"none", "selective", "full"}}};
}

inline const std::string& value_of(const std::vector<LayoutKey>& keys, const LayoutChoice& choice,
                                   const std::string& key) {
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (keys[k].key == key) return keys[k].values[choice[k]];
  }
  fail("no key {}", key);
}

inline std::vector<std::string> overrides_of(const std::vector<LayoutKey>& keys, const LayoutChoice& choice) {
  std::vector<std::string> overrides;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (!keys[k].key.empty()) overrides.push_back(keys[k].key + "=" + keys[k].values[choice[k]]);
  }
  return overrides;
}

inline std::string text_of(const std::vector<LayoutKey>& keys, const LayoutChoice& choice) {
  std::string text = value_of(keys, choice, "");
  for (const std::string& override : overrides_of(keys, choice)) text += " " + override;
  return text;
}

// As golden_check makes it from the same words. One thread per rank: the models are tiny.
inline RunConfig layout_config(const std::vector<std::string>& overrides) {
  RunConfig config;
  config.train.micro_batch = 0;
  config.threads = 1;
  apply_overrides(config, overrides);
  return config;
}

// Whether one of its keys has nothing to act on: another choice is the same run. The golden models have four
// layers, so four stages have one each, and interleaved is 1f1b.
inline bool repeats_another(const std::vector<LayoutKey>& keys, const LayoutChoice& choice) {
  const auto is = [&](const char* key, const char* value) { return value_of(keys, choice, key) == value; };
  return (is("parallel.tp", "1") && is("parallel.sequence", "true")) ||
         (is("parallel.dp", "1") && is("parallel.zero1", "true")) ||
         (is("parallel.pp", "1") && !is("pipeline.schedule", "gpipe")) ||
         (is("parallel.pp", "4") && is("pipeline.schedule", "interleaved"));
}

// All different layouts of at most `most_ranks` ranks.
inline std::vector<LayoutChoice> all_layouts(const std::vector<LayoutKey>& keys, int most_ranks) {
  std::vector<LayoutChoice> all;
  LayoutChoice choice(keys.size(), 0);
  for (;;) {
    int num_ranks = 1;
    for (const char* axis : {"parallel.tp", "parallel.pp", "parallel.dp"}) {
      num_ranks *= std::stoi(value_of(keys, choice, axis));
    }
    if (num_ranks <= most_ranks && !repeats_another(keys, choice)) all.push_back(choice);
    std::size_t k = 0;
    while (k < keys.size() && ++choice[k] == keys[k].values.size()) choice[k++] = 0;
    if (k == keys.size()) return all;
  }
}

// (key, value, other key, other value)
using ChoicePair = std::array<std::size_t, 4>;
inline std::vector<ChoicePair> pairs_of(const LayoutChoice& choice) {
  std::vector<ChoicePair> pairs;
  for (std::size_t a = 0; a < choice.size(); ++a) {
    for (std::size_t b = a + 1; b < choice.size(); ++b) pairs.push_back({a, choice[a], b, choice[b]});
  }
  return pairs;
}

// Always the layout that has the most pairs which none before it has; the first of equals.
inline std::vector<LayoutChoice> covering_layouts(const std::vector<LayoutChoice>& all) {
  std::set<ChoicePair> missing;
  for (const LayoutChoice& choice : all) {
    for (const ChoicePair& pair : pairs_of(choice)) missing.insert(pair);
  }
  std::vector<LayoutChoice> chosen;
  while (!missing.empty()) {
    const LayoutChoice* best = nullptr;
    std::size_t most = 0;
    for (const LayoutChoice& choice : all) {
      std::size_t count = 0;
      for (const ChoicePair& pair : pairs_of(choice)) count += missing.count(pair);
      if (count > most) {
        most = count;
        best = &choice;
      }
    }
    chosen.push_back(*best);
    for (const ChoicePair& pair : pairs_of(*best)) missing.erase(pair);
  }
  return chosen;
}

}  // namespace tessera
