// HfTokenizerFile: what a Hugging Face tokenizer.json of a byte-level BPE says, as plain data.
//
// Read by read_hf_tokenizer_file for HfTokenizer. Read are the files of GPT-NeoX and GPT-2 and their kin:
// model BPE, normaliser none or NFC, the ByteLevel split, at most one token put before a text. What would
// change the ids and is not done here is refused by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/text/bpe_vocabulary.h"

namespace tessera {

struct HfTokenizerFile {
  struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    bool normalized = false;  // looked for in the normalised text, not in the text as given
  };
  BpeVocabulary vocabulary;  // added tokens included, in plain text
  std::vector<AddedToken> added;
  bool nfc = false;
  std::optional<std::int32_t> begin_of_text;  // that the post_processor puts before a text
};

HfTokenizerFile read_hf_tokenizer_file(const std::filesystem::path& path);

}  // namespace tessera
