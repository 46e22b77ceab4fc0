#include "tessera/models/gelu_name.h"

#include "tessera/base/error.h"

namespace tessera {

bool read_gelu_tanh(const JsonConfig& json, const std::string& key, const std::string& fallback) {
  const std::string name = json.text(key, fallback);
  if (name == "gelu") return false;
  TS_CHECK(
      name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast",
      "{}: {} is '{}', expected 'gelu', or 'gelu_new', 'gelu_fast' or 'gelu_pytorch_tanh', which are one",
      json.source(), key, name);
  return true;
}

std::string gelu_name(bool tanh) {
  return tanh ? "gelu_new" : "gelu";
}

}  // namespace tessera
