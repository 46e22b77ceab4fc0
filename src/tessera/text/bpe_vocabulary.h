// BpeVocabulary: what a byte-level BPE has learnt, as plain data, and its two files.
//
// Made by train_bpe or read from a folder; a BpeTokenizer is built from it. The files are vocab.json and
// merges.txt as GPT-2 and Hugging Face write them, so either side loads the other's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

struct BpeVocabulary {
  std::vector<std::string> tokens;  // tokens[id] is what the id decodes to: bytes, not the files' spelling
  std::vector<BpeMerge> merges;     // the earlier wins
};

// Each merge's result is a token; every byte is a token; a token that is neither is special.
// A vocabulary that breaks this is refused with the file and, in merges.txt, the line.
BpeVocabulary load_bpe_vocabulary(const std::filesystem::path& folder);

// Makes the folder if need be. Both files appear together: on any exception those of an earlier call stay.
// Throws Error while another process writes into the folder.
void save_bpe_vocabulary(const BpeVocabulary& vocabulary, const std::filesystem::path& folder);

// Whether a token that no merge makes may be in a vocabulary: "<s>", "<|endoftext|>", "[MASK]", or one of the
// "madeupword0000" with which fairseq fills its vocabularies up. Without this rule a merges.txt that was cut
// off would load, and give other ids than the model was trained on.
bool looks_special(std::string_view token);

}  // namespace tessera
