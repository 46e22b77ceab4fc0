// Which gelu a config.json names: Hugging Face has several words for its two forms.
#pragma once

#include <string>

#include "tessera/models/json_config.h"

namespace tessera {

// Whether `key` names the tanh approximation; refuses what is no gelu.
bool read_gelu_tanh(const JsonConfig& json, const std::string& key, const std::string& fallback);
std::string gelu_name(bool tanh);

}  // namespace tessera
