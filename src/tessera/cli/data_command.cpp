#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/data_commands.h"
#include "tessera/data/corpus_builder.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

struct DataCommand {
  const char* name;
  const char* summary;
  int (*run)(int argc, const char* const* argv);
};

constexpr std::array kCommands = {
    DataCommand{"bert", "make BERT's HDF5 shards of masked sentence pairs from texts", data_bert_command},
    DataCommand{"blocks", "cut texts or JSON lines into blocks, as run_clm does", data_blocks_command},
    DataCommand{"bpe", "train a byte-level BPE on texts", data_bpe_command},
    DataCommand{"build", "turn texts or JSON lines into PREFIX.bin and PREFIX.idx", data_build_command},
    DataCommand{"index", "write the maps by which NeMo reads a corpus in samples", data_index_command},
    DataCommand{"tokenize", "write the ids of one text as raw int32", data_tokenize_command},
};

std::string help() {
  std::string text =
      "tessera data COMMAND ...\n"
      "  Text to tokens, tokens to files.\n\n"
      "Commands (each with --help):\n";
  for (const DataCommand& command : kCommands)
    text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  return text;
}

}  // namespace

void check_key_is_read(const std::string& key, const std::vector<std::string>& files) {
  const auto has_keys = [](const std::string& file) {
    return is_json_corpus(file, CorpusFormat::by_extension);
  };
  TS_CHECK(key == kTextKey || std::ranges::any_of(files, has_keys),
           "--key: found '{}', but no file of JSON lines (.jsonl, .ndjson, .json) that would have keys", key);
}

int data_command(int argc, const char* const* argv) {
  if (argc < 2) {
    fmt::print(stderr, "{}", help());
    return 2;
  }
  const std::string_view name = argv[1];
  std::vector<std::string> names;
  for (const DataCommand& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    names.push_back(command.name);
  }
  if (name == "--help" || name == "-h") {
    fmt::print("{}", help());
    return 0;
  }
  fmt::print(stderr, "tessera data: unknown command '{}'{}\n{}", name, did_you_mean(name, names), help());
  return 2;
}

}  // namespace tessera
