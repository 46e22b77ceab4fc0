// DataKeys: the keys data.* of a run's config: what it trains and validates on.
//
// Part of RunConfig; read by open_run_data, which turns them into samples. Each kind of data reads some of
// the keys, and a key that another kind reads is refused rather than passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

class ConfigSchema;

enum class DataKindName { tokens, megatron, bert, text };

struct DataKeys {
  DataKindName kind = DataKindName::tokens;
  std::string tokenizer;  // what open_tokenizer takes

  // tokens, megatron: .bin and .idx files
  std::string prefix;
  std::string valid_prefix;      // empty: valid_fraction (tokens) or split (megatron) of `prefix`
  double valid_fraction = 0.01;  // tokens, text: the last samples
  bool shuffle = true;           // tokens, text: training samples; validation never is

  // megatron
  std::vector<std::string> blend;   // weight, prefix, weight, prefix, ...: instead of `prefix`
  std::string split = "980,10,10";  // documents for training, validation and test
  std::int64_t samples = 0;         // that the order is made for; 0: train.steps * train.global_batch

  // bert: folders of HDF5 shards
  std::string shards;
  std::string valid_shards;

  // text: plain text or JSON lines
  std::vector<std::string> texts;
  std::vector<std::string> valid_texts;  // empty: valid_fraction of the blocks of `texts`
  std::string json_key = "text";
  bool keep_newlines = true;

  std::string cache;  // megatron, text: folder of what is made of the files; empty: beside them
  bool operator==(const DataKeys&) const = default;
};

void declare_data(ConfigSchema& schema, DataKeys& data);

// Refuses keys that the kind does not read and keys that exclude each other, naming them.
void validate_data(const DataKeys& data);

// Makes `path` the validation data, all of it, and nothing else the data: a prefix, a folder of shards or a
// text, as the kind has it.
void validate_on(DataKeys& data, const std::string& path);

// "tokens", as data.kind names it.
std::string data_kind_text(DataKindName kind);

}  // namespace tessera
