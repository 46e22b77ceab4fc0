#include "tessera/train/data_keys.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/data/document_split.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names{"tokens", "megatron", "bert", "text"};
  return names;
}

// Beside data.kind and data.tokenizer, which all do.
std::vector<std::string> keys_read_by(DataKindName kind) {
  switch (kind) {
    case DataKindName::tokens:
      return {"data.prefix", "data.valid_prefix", "data.valid_fraction", "data.shuffle"};
    case DataKindName::megatron:
      return {"data.prefix", "data.valid_prefix", "data.blend", "data.split", "data.samples", "data.cache"};
    case DataKindName::bert:
      return {"data.shards", "data.valid_shards"};
    case DataKindName::text:
      break;
  }
  return {"data.texts",    "data.valid_texts",   "data.valid_fraction", "data.shuffle",
          "data.json_key", "data.keep_newlines", "data.cache"};
}

}  // namespace

std::string data_kind_text(DataKindName kind) {
  return kind_names()[static_cast<std::size_t>(kind)];
}

void declare_data(ConfigSchema& s, DataKeys& data) {
  s.choice("data.kind", &data.kind,
           "tokens: .bin/.idx, shuffled; megatron: .bin/.idx in NeMo's order; bert: HDF5 shards; text: plain "
           "text or JSON lines in blocks",
           kind_names());
  s.text("data.tokenizer", &data.tokenizer,
         "tokenizer.json, SentencePiece .model, WordPiece vocab.txt, or a folder with one or with vocab.json "
         "and merges.txt");
  s.text("data.prefix", &data.prefix, "tokens, megatron: training tokens, PREFIX.bin and PREFIX.idx");
  s.text("data.valid_prefix", &data.valid_prefix, "tokens, megatron: validation tokens, likewise");
  s.number("data.valid_fraction", &data.valid_fraction,
           "tokens, text: share of the samples held out, without validation data of its own",
           {.min = 0, .max = 1, .below_max = true});
  s.boolean("data.shuffle", &data.shuffle,
            "tokens, text: training samples in an order of the seed's; else as in the files");
  s.list("data.blend", &data.blend, "megatron: weight, prefix, weight, prefix, ... instead of data.prefix");
  s.text("data.split", &data.split, "megatron: shares of the documents for training, validation and test");
  s.integer("data.samples", &data.samples,
            "megatron: samples that the order is made for; 0: train.steps * train.global_batch", {.min = 0});
  s.text("data.shards", &data.shards, "bert: folder of *_training_*.hdf5 (see `tessera data bert`)");
  s.text("data.valid_shards", &data.valid_shards, "bert: folder of shards to validate on");
  s.list("data.texts", &data.texts, "text: files; JSON lines by their ending .jsonl, .ndjson or .json");
  s.list("data.valid_texts", &data.valid_texts, "text: files to validate on");
  s.text("data.json_key", &data.json_key, "text: where the text of a JSON line is");
  s.boolean("data.keep_newlines", &data.keep_newlines, "text: encode lines with their newlines");
  s.text("data.cache", &data.cache,
         "megatron, text: folder of index maps and blocks; empty: beside the files they are made of");
}

void validate_data(const DataKeys& data) {
  DataKeys written;
  ConfigSchema schema;
  declare_data(schema, written);
  written = data;
  const std::vector<std::string> read = keys_read_by(data.kind);
  for (const ConfigKey& key : schema.keys()) {
    const bool reads = key.path == "data.kind" || key.path == "data.tokenizer" ||
                       std::find(read.begin(), read.end(), key.path) != read.end();
    TS_CHECK(reads || is_default(key), "{} does not go with data.kind = {}, which reads {}", key.path,
             data_kind_text(data.kind), joined(read, ", "));
  }
  const auto exclude = [](const char* first, bool first_given, const char* second, bool second_given) {
    TS_CHECK(!first_given || !second_given, "{} and {} are both given: expected one of them", first, second);
  };
  const bool own_fraction = data.valid_fraction != DataKeys{}.valid_fraction;
  exclude("data.valid_prefix", !data.valid_prefix.empty(), "data.valid_fraction", own_fraction);
  exclude("data.valid_texts", !data.valid_texts.empty(), "data.valid_fraction", own_fraction);
  exclude("data.prefix", !data.prefix.empty(), "data.blend", !data.blend.empty());
  exclude("data.valid_prefix", !data.valid_prefix.empty(), "data.split", data.split != DataKeys{}.split);
  try {
    split_documents(data.split, 1);
  } catch (const Error& error) {
    fail("data.split: {}", error.what());
  }
}

void validate_on(DataKeys& data, const std::string& path) {
  DataKeys only{.kind = data.kind, .tokenizer = data.tokenizer};
  switch (data.kind) {
    case DataKindName::tokens:
      only.prefix = only.valid_prefix = path;
      break;
    case DataKindName::megatron:
      only.prefix = only.valid_prefix = path;
      only.cache = data.cache;
      break;
    case DataKindName::bert:
      only.valid_shards = path;
      break;
    case DataKindName::text:
      only.valid_texts = {path};
      only.json_key = data.json_key;
      only.keep_newlines = data.keep_newlines;
      only.cache = data.cache;
      break;
  }
  data = only;
}

}  // namespace tessera
