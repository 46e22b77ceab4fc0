// Whether weights are those of the model that a run describes, by both models' config.json.
#pragma once

#include <functional>
#include <string>

namespace tessera {

// On a resume. Throws Error naming the checkpoint and every key that differs, with both values.
void check_same_model(const std::string& saved, const std::string& described, const std::string& checkpoint);

// For a new run that starts from weights. Throws likewise where the same weights would compute something
// else: with other heads, another activation or eps. What training may change on purpose (positions and
// their angles, dropout, padding) is only said.
void check_weights_suit(const std::string& saved, const std::string& described, const std::string& weights,
                        const std::function<void(const std::string&)>& message);

}  // namespace tessera
