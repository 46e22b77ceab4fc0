// The families by the name that config.json gives them.
#include "tessera/base/mapped_file.h"
#include "tessera/models/bert.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/models/llama.h"

namespace tessera {

std::unique_ptr<Model> parse_model_config(const std::string& json_text, const std::string& source) {
  const JsonConfig json(json_text, source);
  const std::string type = json.text("model_type");
  if (type == "llama" || type == "qwen2") return make_llama(read_llama_config(json));
  if (type == "gpt2") return make_gpt2(read_gpt2_config(json));
  if (type == "gpt_neox") return make_gpt_neox(read_gpt_neox_config(json));
  if (type == "bert") return make_bert(read_bert_config(json));
  fail("{}: model_type is '{}', expected 'llama', 'qwen2', 'gpt2', 'gpt_neox' or 'bert'", source, type);
}

std::filesystem::path model_config_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "config.json" : path;
}

std::unique_ptr<Model> load_model_config(const std::filesystem::path& path) {
  const std::filesystem::path file = model_config_file(path);
  return parse_model_config(read_file(file), file.string());
}

}  // namespace tessera
