// TinyRun: a folder with a small corpus and the config of a run over it that takes a fraction of a second.
// Used by the tests of whole runs, through the library and through the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/temporary_folder.h"
#include "tessera/data/indexed_dataset_writer.h"
#include "tessera/metrics/jsonl_log.h"
#include "tessera/train/run_config.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/trainer.h"

namespace tessera {

inline constexpr std::int64_t kTinyVocab = 61;

// Counts up by threes, with a stranger now and then: easy to learn, but not at once.
inline std::vector<std::int32_t> tiny_tokens(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::uint32_t state = 12345;
  std::int32_t token = 0;
  for (std::int32_t& next : tokens) {
    state = state * 1664525u + 1013904223u;
    token = (state >> 24) < 20 ? static_cast<std::int32_t>((state >> 8) % kTinyVocab)
                               : static_cast<std::int32_t>((token + 3) % kTinyVocab);
    next = token;
  }
  return tokens;
}

inline void write_corpus(const std::filesystem::path& prefix, const std::vector<std::int32_t>& tokens) {
  IndexedDatasetWriter writer(prefix, TokenDType::u16);
  writer.add_document(tokens);
  writer.finish();
}

class TinyRun {
 public:
  TinyRun() {
    write_corpus(path() / "corpus", tiny_tokens(3000));
    config.model.architecture.hidden_size = 32;
    config.model.architecture.layers = 2;
    config.model.architecture.ffn_size = 48;
    config.model.architecture.vocab_size = kTinyVocab;
    config.model.architecture.attention.heads = 4;
    config.model.architecture.attention.kv_heads = 2;
    config.data.prefix = (path() / "corpus").string();
    config.train.steps = 12;
    config.train.seq_len = 16;
    config.train.global_batch = 4;
    config.train.micro_batch = 2;
    config.train.eval_every = 4;
    config.train.eval_batches = 2;
    config.train.save_every = 0;
    config.optimizer.lr = 1e-2;
    config.schedule.warmup_steps = 2;
    config.schedule.decay_steps = 12;
    config.threads = 1;
  }

  // With dropout on the embedding and the residual stream.
  void become_gpt2() {
    folder_.write("gpt2.json", R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 2,
      "n_head": 4, "n_positions": 16, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0})");
    config.model.architecture = {};
    config.model.config = (path() / "gpt2.json").string();
  }

  const std::filesystem::path& path() const { return folder_.path(); }

  // Into a folder of its own, with the config as it is now.
  TrainSummary train_into(const std::string& name, bool resume = false) {
    config.train.out = (path() / name).string();
    return train(config, resume, {});
  }

  // The same on the threads of config.parallel.
  void train_on_ranks(const std::string& name) {
    config.train.out = (path() / name).string();
    run_ranks(config, false, [&](Communicator* world) { train(config, false, {}, world); });
  }

  std::vector<StepReport> reports(const std::string& name) const {
    return read_jsonl_log(path() / name / "metrics.jsonl");
  }

  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const StepReport& report : reports(name)) values.push_back(report.loss);
    return values;
  }

  RunConfig config;

 private:
  TemporaryFolder folder_;
};

// Same losses and gradient norms step by step, and the same files in the checkpoint, byte for byte.
inline void expect_same_bits(const TinyRun& run, const std::string& first, const std::string& second,
                             const std::string& checkpoint = "step-00000012") {
  const std::vector<StepReport> a = run.reports(first), b = run.reports(second);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(a[i].loss, b[i].loss) << "step " << a[i].step;
    EXPECT_EQ(a[i].grad_norm, b[i].grad_norm) << "step " << a[i].step;
    EXPECT_EQ(a[i].learning_rate, b[i].learning_rate) << "step " << a[i].step;
  }
  for (const char* file : {"weights.safetensors", "optimizer.safetensors"}) {
    const std::string bytes = bytes_of(run.path() / first / checkpoint / file);
    EXPECT_FALSE(bytes.empty()) << file;
    EXPECT_TRUE(bytes == bytes_of(run.path() / second / checkpoint / file)) << file;
  }
}

}  // namespace tessera
