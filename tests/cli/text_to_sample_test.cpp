// The whole path with the program alone: text, tokenizer, corpus, training, evaluation, a sample, and the
// model in and out of Hugging Face's layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "cli/program_test_folder.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/text/bpe_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class TextToSampleTest : public ProgramTestFolder {
 protected:
  TextToSampleTest() {
    fs::copy(fs::path(TESSERA_SOURCE_DIR) / "LICENSE", path() / "text.txt");
    expect_success({"data", "bpe", "--out", "tokens", "--vocab-size", "300", "text.txt"});
    expect_success({"data", "build", "--out", "data/text", "--tokenizer", "tokens", "text.txt"});
    folder.write("text.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}
data: {prefix: data/text, tokenizer: tokens, valid_fraction: 0.1}
train: {steps: 60, seq_len: 16, global_batch: 8, micro_batch: 4, eval_every: 60, eval_batches: 1000, out: run}
optimizer: {lr: 0.01}
)");
  }

  static std::string loss_line(const ProgramResult& result) {
    return result.out.substr(0, result.out.find("  over"));
  }
};

TEST_F(TextToSampleTest, TheCorpusHoldsTheTokensOfTheText) {
  expect_success({"data", "tokenize", "--tokenizer", "tokens", "--in", "text.txt", "--out", "ids"});
  const std::string bytes = bytes_of(path() / "ids");
  std::vector<std::int32_t> ids(bytes.size() / 4);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  const BpeTokenizer tokenizer = BpeTokenizer::load(path() / "tokens");
  EXPECT_EQ(tokenizer.vocab_size(), 300);
  EXPECT_EQ(tokenizer.decode(ids), bytes_of(path() / "text.txt"));
  ids.push_back(tokenizer.id_of("<|endoftext|>").value());
  EXPECT_EQ(IndexedDataset(path() / "data/text").sequence(0), ids);

  folder.write("lines.jsonl", "{\"text\": \"the license\"}\n{\"text\": \"of the work\"}\n");
  const ProgramResult built =
      expect_success({"data", "build", "--out", "lines", "--tokenizer", "tokens", "lines.jsonl"});
  EXPECT_NE(built.out.find("2 documents"), std::string::npos) << built.text();
  EXPECT_EQ(IndexedDataset(path() / "lines").num_documents(), 2);
}

TEST_F(TextToSampleTest, TrainsEvaluatesAndGenerates) {
  const ProgramResult trained = expect_success({"train", "text.yaml"});
  for (const char* part :
       {"trained 60 steps, loss ", "validation loss ", "checkpoint  run/step-00000060", "run/loss.svg"})
    EXPECT_NE(trained.out.find(part), std::string::npos) << part << "\n" << trained.text();
  EXPECT_NE(trained.err.find("step 60/60  loss "), std::string::npos) << trained.text();

  // The evaluation of the run's own held-out part is the one training made.
  const std::vector<StepReport> reports = read_jsonl_log(path() / "run/metrics.jsonl");
  const ProgramResult evaluated = expect_success({"eval", "run"});
  EXPECT_EQ(loss_line(evaluated).substr(0, 13), fmt::format("loss {:.6f}", *reports.back().eval_loss));
  EXPECT_EQ(loss_line(expect_success({"eval", "run/step-00000060", "threads=1"})), loss_line(evaluated));
  expect_refusal({"eval", "run", "--seq-len", "64"},
                 {"--seq-len: found 64, expected at most 16, the model's positions"});
  expect_refusal({"eval", "run", "--data", "nope"}, {"--data = nope: cannot open nope.idx"});
  expect_refusal({"eval", "run", "device=null"}, {"device: found null"});
  expect_refusal({"eval", "run", "precision=bf16"},
                 {"precision does not count here, expected keys of device"});
  expect_refusal({"generate", "run", "model.layers=2"}, {"model.layers does not count here"});

  const auto sample = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "run", "--prompt", "The License", "--tokens", "30"});
    return expect_success(more).out;
  };
  const std::string text = sample({"--seed", "7"});
  EXPECT_TRUE(text.starts_with("The License")) << text;
  EXPECT_GT(text.size(), std::string("The License").size() + 10);
  EXPECT_EQ(sample({"--seed", "7"}), text);
  EXPECT_EQ(sample({"--seed", "7", "threads=1"}), text);
  EXPECT_NE(sample({"--seed", "8"}), text);
  const std::string likeliest = sample({"--temperature", "0"});
  for (const char* seed : {"7", "8"}) {
    EXPECT_EQ(sample({"--seed", seed, "--temperature", "0"}), likeliest);
    EXPECT_EQ(sample({"--seed", seed, "--top-k", "1"}), likeliest);
    EXPECT_EQ(sample({"--seed", seed, "--top-p", "0.000001"}), likeliest);
    EXPECT_NE(sample({"--seed", seed, "--top-k", "100", "--top-p", "0.99"}), likeliest);
  }

  for (const char* key : {"train.out=x", "train.save_every=3", "optimizer.lr=1"})
    expect_refusal({"eval", "run", key}, {std::string(key).substr(0, std::string(key).find('='))});

  fs::rename(path() / "tokens", path() / "moved");
  const ProgramResult moved =
      expect_refusal({"eval", "run", "--data", "data/text"}, {"data.tokenizer: no tokenizer at tokens"});
  EXPECT_EQ(moved.err.find("--data"), std::string::npos) << moved.text();
}

// Products of another card, in a file that may have stayed with it.
TEST_F(TextToSampleTest, ARunIsUsedWithoutItsTuning) {
  expect_success({"train", "text.yaml", "train.steps=1", "cuda.tuning=card.tuning"});
  for (const std::string command : {"eval", "generate"}) {
    const ProgramResult result = tessera({command, "run", "device=cuda"});
    EXPECT_EQ(result.err.find("card.tuning"), std::string::npos) << result.text();
    expect_refusal({command, "run", "device=cuda", "cuda.tuning=other.tuning"}, {"cannot open other.tuning"});
  }
}

TEST_F(TextToSampleTest, ConvertsThereAndBack) {
  expect_success({"train", "text.yaml", "train.steps=5"});
  expect_success({"convert", "run", "hf"});
  EXPECT_EQ(names_in(path() / "hf"),
            (std::vector<std::string>{"config.json", "merges.txt", "model.safetensors", "vocab.json"}));
  expect_success({"convert", "hf", "back", "--to", "tessera"});
  for (const char* format : {"tessera", "hf"}) {
    expect_refusal({"convert", "hf", "run", "--to", format},
                   {"run holds a run or a checkpoint", "another folder"});
  }
  expect_success({"convert", "back", "hf2"});
  for (const char* file : {"config.json", "merges.txt", "model.safetensors", "vocab.json"})
    EXPECT_TRUE(bytes_of(path() / "hf" / file) == bytes_of(path() / "hf2" / file)) << file;
  EXPECT_TRUE(bytes_of(path() / "run/step-00000005/weights.safetensors") ==
              bytes_of(path() / "back/step-00000000/weights.safetensors"));

  const std::string loss = loss_line(expect_success({"eval", "run", "--data", "data/text"}));
  for (const char* model : {"hf", "back"})
    EXPECT_EQ(loss_line(expect_success({"eval", model, "--data", "data/text", "--batch", "4"})), loss)
        << model;
  const std::string text = expect_success({"generate", "run", "--tokens", "20"}).out;
  for (const char* model : {"hf", "back"})
    EXPECT_EQ(expect_success({"generate", model, "--tokens", "20"}).out, text) << model;

  fs::rename(path() / "tokens", path() / "moved");
  expect_refusal({"convert", "run", "hf3"}, {"no tokenizer at tokens"});
  EXPECT_FALSE(fs::exists(path() / "hf3"));
}

TEST_F(TextToSampleTest, ATokenizerThatHasBeenReplacedIsSaid) {
  expect_success({"train", "text.yaml", "train.steps=2"});
  expect_success({"convert", "run", "copy", "--to", "tessera"});
  const std::string words = "tokens is not the tokenizer that ",
                    changed = "changed since: the files of data.tokenizer";
  const auto says = [&](const std::vector<std::string>& command, const std::string& text) {
    return expect_success(command).err.find(text) != std::string::npos;
  };
  EXPECT_FALSE(says({"generate", "run", "--tokens", "1"}, words));
  EXPECT_FALSE(says({"train", "text.yaml", "train.steps=3", "--resume"}, changed));
  std::string other = bytes_of(path() / "text.txt");
  std::ranges::reverse(other);
  folder.write("other.txt", other);
  expect_success({"data", "bpe", "--vocab-size", "300", "--out", "tokens", "other.txt"});
  EXPECT_TRUE(says({"generate", "run", "--tokens", "1"}, words + "run was trained with"));
  EXPECT_TRUE(says({"eval", "run"}, words));
  EXPECT_TRUE(says({"convert", "run", "hf"}, words));
  EXPECT_TRUE(says({"convert", "copy", "hf2"}, words));
  EXPECT_FALSE(says({"generate", "hf", "--tokens", "1"}, words));
  EXPECT_TRUE(says({"train", "text.yaml", "train.steps=4", "--resume"}, changed));
}

TEST_F(TextToSampleTest, TrainsOnFromConvertedWeights) {
  expect_success({"train", "text.yaml", "train.steps=5"});
  expect_success({"convert", "run", "hf"});
  for (const char* weights : {"hf", "run", "run/step-00000005"}) {
    const std::string out = std::string("from_") + (fs::path(weights).filename().string());
    expect_success(
        {"train", "text.yaml", "train.steps=2", "train.out=" + out, std::string("model.weights=") + weights});
  }
  expect_same_run("from_hf", "from_run", "step-00000002");
  expect_same_run("from_hf", "from_step-00000005", "step-00000002");
}

TEST_F(ProgramTestFolder, AGoldenModelSurvivesACheckpointByteForByte) {
  for (const char* model :
       {"llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf", "gpt-neox", "gpt-neox-seqres", "bert"}) {
    const fs::path golden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden" / model;
    const std::string checkpoint = std::string(model) + "-tessera", back = std::string(model) + "-hf";
    expect_success({"convert", golden.string(), checkpoint, "--to", "tessera"});
    expect_success({"convert", checkpoint, back});
    EXPECT_TRUE(bytes_of(path() / back / "model.safetensors") == bytes_of(golden / "model.safetensors"))
        << model;
    // No model here reads them; transformers stops generating at one.
    const std::string config = bytes_of(path() / back / "config.json");
    std::istringstream lines(bytes_of(golden / "config.json"));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"bos_token_id\"") == std::string::npos &&
          line.find("\"eos_token_id\"") == std::string::npos)
        continue;
      EXPECT_NE(config.find(line.substr(0, line.find(','))), std::string::npos) << model << line << config;
    }
  }
}

}  // namespace
}  // namespace tessera
