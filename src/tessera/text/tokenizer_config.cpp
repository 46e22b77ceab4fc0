#include "tessera/text/tokenizer_config.h"

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

template <class T>
std::optional<T> value_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenizerConfigFile;
  if (!std::filesystem::exists(path)) return {};
  try {
    const nlohmann::json config = parse_json(read_file(path));
    TS_CHECK(config.is_object(), "{}: found a JSON {}, expected an object", path.string(),
             config.type_name());
    return {.tokenizer_class = value_of<std::string>(config, "tokenizer_class"),
            .add_bos_token = value_of<bool>(config, "add_bos_token"),
            .add_eos_token = value_of<bool>(config, "add_eos_token")};
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not as transformers writes it: {}", path.string(), error.what());
  }
}

}  // namespace tessera
