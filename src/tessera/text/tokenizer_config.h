// TokenizerConfig: what is read of the tokenizer_config.json that transformers writes beside a vocabulary.
//
// Read where the vocabulary's own files leave it open: by SentencepieceTokenizer, and for a folder of
// vocab.json and merges.txt. A tokenizer.json says all of it itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";

struct TokenizerConfig {
  std::optional<std::string> tokenizer_class;  // "LlamaTokenizer"
  std::optional<bool> add_bos_token, add_eos_token;
};

// All empty where the folder has no such file. Throws Error for one that is not as transformers writes it.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace tessera
