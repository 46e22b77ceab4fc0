#include "tessera/models/model.h"

namespace tessera {

std::vector<ExternalTensor> Model::external_tensors() const {
  fail("this model has no Hugging Face form: its weights have no names there (Model::external_tensors)");
}

std::string Model::config_json() const {
  fail("this model has no Hugging Face form: it has no config.json (Model::config_json)");
}

}  // namespace tessera
