// The commands of `tessera data`, one file each; data_command.cpp picks one by its name. argv[0] is the
// command's own name; the result is the exit code.
#pragma once

#include <string>
#include <vector>

namespace tessera {

int data_bert_command(int argc, const char* const* argv);
int data_blocks_command(int argc, const char* const* argv);
int data_bpe_command(int argc, const char* const* argv);
int data_build_command(int argc, const char* const* argv);
int data_index_command(int argc, const char* const* argv);
int data_tokenize_command(int argc, const char* const* argv);

// Throws Error when --key is given and no file is of JSON lines, which alone have keys.
void check_key_is_read(const std::string& key, const std::vector<std::string>& files);
inline constexpr const char* kTextKey = "text";  // unless another is given

inline constexpr const char* kTokenizerHelp =
    "a folder with vocab.json and merges.txt, a tokenizer.json, a SentencePiece .model or a WordPiece "
    "vocab.txt";

}  // namespace tessera
