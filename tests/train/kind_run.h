// KindRun: a TinyRun on data of one kind, by its name. Used by the tests of what runs read.
#pragma once

#include <cmath>

#include "tessera/data/bert_shard.h"
#include "tessera/text/bpe_trainer.h"
#include "train/tiny_run.h"

namespace tessera {

// Pairs of counting sentences, of which up to four tokens are masked; rows differ in length and in masks.
inline BertShard tiny_shard(std::int64_t num_rows, std::uint32_t state) {
  constexpr std::int64_t kTokens = 16, kPredictions = 4;
  BertShard shard{.num_rows = num_rows, .seq_len = kTokens, .max_predictions = kPredictions};
  const auto draw = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int32_t>((state >> 8) % below);
  };
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t size = 8 + draw(9), first_size = 3 + draw(3);
    const bool random_next = draw(2) == 1;
    const std::int32_t start = draw(8);
    std::vector<std::int32_t> ids(kTokens, 0), positions(kPredictions, 0), masked(kPredictions, 0);
    for (std::int64_t t = 0; t < size; ++t) {
      const bool second = t >= first_size;
      ids[static_cast<std::size_t>(t)] =
          5 + (start + static_cast<std::int32_t>(t) + (second && random_next ? 4 : 0)) % 8;
      shard.segment_ids.push_back(second ? 1 : 0);
    }
    ids[0] = 2;
    const int num_masked = 1 + draw(kPredictions);
    for (int m = 0; m < num_masked; ++m) {
      const auto at = static_cast<std::size_t>(1 + 2 * m);
      positions[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(at);
      masked[static_cast<std::size_t>(m)] = ids[at];
      ids[at] = 4;
    }
    shard.segment_ids.resize(static_cast<std::size_t>((row + 1) * kTokens), 0);
    for (std::int64_t t = 0; t < kTokens; ++t) shard.input_mask.push_back(t < size ? 1 : 0);
    shard.input_ids.insert(shard.input_ids.end(), ids.begin(), ids.end());
    shard.masked_lm_positions.insert(shard.masked_lm_positions.end(), positions.begin(), positions.end());
    shard.masked_lm_ids.insert(shard.masked_lm_ids.end(), masked.begin(), masked.end());
    shard.next_sentence_labels.push_back(random_next ? 1 : 0);
  }
  return shard;
}

class KindRun {
 public:
  explicit KindRun(const std::string& kind) {
    RunConfig& config = run.config;
    config.data = {};
    if (kind == "tokens") {
      config.data.prefix = (run.path() / "corpus").string();
    } else if (kind == "bert") {
      become_bert();
    } else if (kind == "text") {
      become_text();
    } else {
      become_megatron(kind == "blend");
    }
  }

  TinyRun run;
  std::vector<std::string> messages;  // of the last train_on_ranks

  void train_on_ranks(const std::string& name) {
    run.config.train.out = (run.path() / name).string();
    TrainCallbacks callbacks;
    messages.clear();
    callbacks.message = [&](const std::string& text) { messages.push_back(text); };
    run_ranks(run.config, false, [&](Communicator* world) { train(run.config, false, callbacks, world); });
  }

  std::int64_t count_messages(const std::string& word) const {
    return std::ranges::count_if(messages, [&](const std::string& m) { return m.starts_with(word); });
  }

 private:
  std::string write_documents(const std::string& name, std::size_t num_tokens) {
    IndexedDatasetWriter writer(run.path() / name, TokenDType::u16);
    const std::vector<std::int32_t> tokens = tiny_tokens(num_tokens);
    for (std::size_t at = 0, size = 5; at + size <= tokens.size(); at += size, size = 5 + (size * 7) % 40)
      writer.add_document(std::span(tokens).subspan(at, size));
    writer.finish();
    return (run.path() / name).string();
  }

  void become_megatron(bool blended) {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::megatron;
    data.split = "90,8,2";
    data.samples = 48;
    if (blended) {
      data.blend = {"0.3", write_documents("a", 2000), "0.7", write_documents("b", 4000)};
    } else {
      data.prefix = write_documents("a", 2000);
    }
  }

  void become_bert() {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::bert;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::filesystem::path folder = run.path() / (i < 3 ? "shards" : "valid");
      std::filesystem::create_directories(folder);
      write_bert_shard(folder / ("c_training_" + std::to_string(i) + ".hdf5"), tiny_shard(60 + i, 77 + i));
    }
    data.shards = (run.path() / "shards").string();
    data.valid_shards = (run.path() / "valid").string();
    run.config.model.architecture = {};
    run.config.model.config = (run.path() / "bert.json").string();
    std::ofstream(run.config.model.config) << R"({"model_type": "bert", "vocab_size": 61, "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 16,
      "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";
  }

  void become_text() {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::text;
    data.texts = {TESSERA_SOURCE_DIR "/LICENSE"};
    data.valid_fraction = 0.1;
    data.cache = (run.path() / "cache").string();
    data.tokenizer = (run.path() / "tokens").string();
    WordCounts counts;
    count_words(bytes_of(data.texts[0]), counts);
    save_bpe_vocabulary(train_bpe(counts, {.vocab_size = 300}), data.tokenizer);
    run.config.model.architecture.vocab_size = 0;  // the tokenizer's
  }
};

}  // namespace tessera
