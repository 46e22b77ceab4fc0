// The commands of `tessera data`, one file each; data_command.cpp picks one by its name. argv[0] is the
// command's own name; the result is the exit code.
#pragma once

namespace tessera {

int data_bert_command(int argc, const char* const* argv);
int data_blocks_command(int argc, const char* const* argv);
int data_bpe_command(int argc, const char* const* argv);
int data_build_command(int argc, const char* const* argv);
int data_index_command(int argc, const char* const* argv);
int data_tokenize_command(int argc, const char* const* argv);

inline constexpr const char* kTokenizerHelp =
    "a folder with vocab.json and merges.txt, a tokenizer.json, a SentencePiece .model or a WordPiece "
    "vocab.txt";

}  // namespace tessera
