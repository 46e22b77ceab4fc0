// check_same_model: that a checkpoint is of the model that a run describes. Called on a resume.
#pragma once

#include <string>

namespace tessera {

// Both as config.json. Throws Error naming the checkpoint and every key that differs, with both values.
void check_same_model(const std::string& saved, const std::string& described, const std::string& checkpoint);

}  // namespace tessera
