// Files that are cut off, empty, foreign or of another shape, through the program: each is named with
// what was found, and nothing is left behind.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForeign =
    "This is a letter, not a file of numbers, and long enough to be taken for one.";

class BadFileTest : public ProgramTestFolder {};

TEST_F(BadFileTest, Corpora) {
  const std::string bin = bytes_of(path() / "corpus.bin"), idx = bytes_of(path() / "corpus.idx");
  const auto refuse = [&](const std::string& new_bin, const std::string& new_idx,
                          const std::vector<std::string>& parts) {
    folder.write("corpus.bin", new_bin);
    folder.write("corpus.idx", new_idx);
    expect_refusal({"train", "run.yaml"}, parts);
    EXPECT_FALSE(fs::exists(path() / "run"));
  };
  refuse(bin.substr(0, 101), idx, {"corpus.bin: truncated: found 101 bytes", "3000 tokens"});
  refuse("", idx, {"corpus.bin: truncated: found 0 bytes"});
  refuse(kForeign, idx, {"corpus.bin: truncated: found"});
  refuse(bin + "x", idx, {"corpus.bin: too long: found 6001 bytes"});
  refuse(bin, "", {"corpus.idx: the file is empty"});
  refuse(bin, idx.substr(0, 20), {"corpus.idx: truncated: found 20 bytes"});
  refuse(bin, idx.substr(0, idx.size() - 3), {"corpus.idx: truncated or foreign"});
  refuse(bin, kForeign, {"corpus.idx: not a Megatron .idx"});
  for (const char* missing : {"corpus.idx", "corpus.bin"}) {
    folder.write("corpus.bin", bin);
    folder.write("corpus.idx", idx);
    fs::remove(path() / missing);
    expect_refusal({"train", "run.yaml"}, {std::string("cannot open ") + missing, "No such file"});
  }
}

TEST_F(BadFileTest, IdsBeyondTheVocabulary) {
  std::vector<std::int32_t> tokens = tiny_tokens(3000);
  tokens[1234] = 61;
  write_corpus(path() / "corpus", tokens);
  expect_refusal({"train", "run.yaml", "train.steps=200"},
                 {"corpus.bin: token 1234 is id 61", "vocabulary has 61 ids"});
}

// A Hugging Face folder named "model", to spoil.
class BadModelTest : public ProgramTestFolder {
 protected:
  BadModelTest() { fs::copy(kGolden / "llama", path() / "model"); }

  // As every command that opens a model meets it.
  void expect_refused_everywhere(const std::vector<std::string>& parts) const {
    expect_refusal({"convert", "model", "out"}, parts);
    expect_refusal({"convert", "model", "out", "--to", "tessera"}, parts);
    expect_refusal({"eval", "model", "--data", "corpus"}, parts);
    EXPECT_FALSE(fs::exists(path() / "out"));
  }
};

TEST_F(BadModelTest, Weights) {
  const std::string good = bytes_of(path() / "model/model.safetensors");
  folder.write("model/model.safetensors", good.substr(0, good.size() - 5));
  expect_refused_everywhere({"model.safetensors"});
  folder.write("model/model.safetensors", good.substr(0, 100));
  expect_refused_everywhere({"model.safetensors", "cut short"});
  folder.write("model/model.safetensors", "");
  expect_refused_everywhere({"model.safetensors", "0 bytes"});
  folder.write("model/model.safetensors", kForeign);
  expect_refused_everywhere({"model.safetensors", "not be a safetensors file"});
  fs::remove(path() / "model/model.safetensors");
  expect_refused_everywhere({"model: found neither model.safetensors nor"});
}

TEST_F(BadModelTest, Configs) {
  const std::string good = bytes_of(path() / "model/config.json");
  folder.write("model/config.json", "");
  expect_refused_everywhere({"config.json: not a JSON file"});
  folder.write("model/config.json", good.substr(0, good.size() / 2));
  expect_refused_everywhere({"config.json: not a JSON file"});
  folder.write("model/config.json", kForeign);
  expect_refused_everywhere({"config.json: not a JSON file"});
  folder.write("model/config.json", "[1, 2]");
  expect_refused_everywhere({"config.json: found a JSON array, expected an object"});
  folder.write("model/config.json", R"({"model_type": "mamba"})");
  expect_refused_everywhere({"config.json: model_type is 'mamba', expected 'llama'"});
  folder.write("model/config.json", R"({"model_type": "llama"})");
  expect_refused_everywhere({"config.json: key 'vocab_size' is missing"});
  folder.write("model/config.json", R"({"model_type": "llama", "vocab_size": -4})");
  expect_refused_everywhere({"config.json: 'vocab_size' is -4, expected a positive integer"});
  folder.write("model/config.json", good.substr(0, good.rfind('}')) + R"(, "attention_dropout": 1.5})");
  expect_refused_everywhere({"config.json: 'attention_dropout' is 1.5, expected a rate below 1"});
  folder.write("model/config.json", good.substr(0, good.rfind('}')) + R"(, "rms_norm_eps": -1})");
  expect_refused_everywhere({"config.json: 'rms_norm_eps' is -1, expected a number from 0 on"});
  fs::remove(path() / "model/config.json");
  expect_refused_everywhere({"model holds no model", "config.json"});
}

TEST_F(BadModelTest, ShapesThatDoNotMatch) {
  std::string config = bytes_of(path() / "model/config.json");
  config.replace(config.find("\"intermediate_size\": 96"), 23, "\"intermediate_size\": 80");
  folder.write("model/config.json", config);
  expect_refused_everywhere({"model.safetensors: tensor \"model.layers.0.mlp.gate_proj.weight\"",
                             "found F32 [96,32], expected f32 [80,32]"});
  expect_refusal({"train", "run.yaml", "model.weights=model"},
                 {"model.weights = model", "'intermediate_size' is 80 there and 48 here"});
  expect_refusal({"train", "run.yaml", "model.weights=model/model.safetensors"},
                 {"model.safetensors", "model.embed_tokens.weight"});
  EXPECT_FALSE(fs::exists(path() / "run"));
}

TEST_F(BadModelTest, FoldersThatAreNoModel) {
  const ProgramResult early = expect_refusal({"train", "run.yaml", "model.weights=nope"},
                                             {"model.weights = nope: no such file or folder"});
  EXPECT_EQ(early.err.find("planned memory"), std::string::npos) << early.text();
  expect_refusal({"eval", "absent"}, {"absent is not a folder"});
  expect_refusal({"convert", "run.yaml", "out"}, {"run.yaml is not a folder"});
  fs::create_directory(path() / "nothing");
  expect_refusal({"generate", "nothing"}, {"nothing holds no model", "step-* checkpoints"});
  expect_refusal({"generate", "model"}, {"model names no tokenizer", "--tokenizer"});
  expect_refusal({"eval", "model"}, {"model has no data of its own", "--data"});
  fs::create_directory(path() / "unsaved");
  folder.write("unsaved/run.yaml", "");  // of a run that has just begun
  folder.write("unsaved/config.json", bytes_of(path() / "model/config.json"));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"eval", "unsaved"},
                                             {"generate", "unsaved"},
                                             {"convert", "unsaved", "out"},
                                             {"train", "run.yaml", "model.weights=unsaved"}}) {
    expect_refusal(command, {"unsaved is a run that has saved no checkpoint", "train.save_every"});
  }
  expect_refusal({"convert", "model", "out", "--to", "gguf"},
                 {"--to: found 'gguf', expected 'hf' or 'tessera'"});
}

TEST_F(BadFileTest, Vocabularies) {
  folder.write("text.txt", "the cat sat on the mat with the other cat, and the mat sat still\n");
  expect_success({"data", "bpe", "--out", "tokens", "--vocab-size", "262", "text.txt"});
  const std::string merges = bytes_of(path() / "tokens/merges.txt"),
                    vocab = bytes_of(path() / "tokens/vocab.json");
  const auto refuse = [&](const std::vector<std::string>& parts) {
    expect_refusal({"data", "build", "--out", "c", "--tokenizer", "tokens", "text.txt"}, parts);
    expect_refusal({"data", "tokenize", "--tokenizer", "tokens", "--in", "text.txt", "--out", "ids"}, parts);
    expect_refusal({"train", "run.yaml", "data.tokenizer=tokens", "model.vocab_size=0"}, parts);
    for (const char* name : {"c.bin", "c.idx", "ids", "run"}) EXPECT_FALSE(fs::exists(path() / name)) << name;
  };
  const std::size_t last = merges.rfind('\n', merges.size() - 2);
  folder.write("tokens/merges.txt", merges.substr(0, last + 1));
  refuse({"vocab.json: token", "comes out of no merge", "is merges.txt cut off?"});
  folder.write("tokens/merges.txt", "");
  refuse({"merges.txt: the file is empty"});
  fs::remove(path() / "tokens/merges.txt");
  refuse({"cannot open tokens/merges.txt"});
  folder.write("tokens/merges.txt", merges);
  folder.write("tokens/vocab.json", vocab.substr(0, vocab.size() / 2));
  refuse({"vocab.json: not a JSON file"});
}

TEST_F(BadFileTest, Texts) {
  folder.write("text.txt", "some words and some more words and some more\n");
  expect_success({"data", "bpe", "--out", "tokens", "--vocab-size", "258", "text.txt"});
  expect_refusal({"data", "bpe", "--out", "t", "absent.txt"}, {"cannot open absent.txt"});
  expect_refusal({"data", "bpe", "--out", "t", "--vocab-size", "100", "text.txt"}, {"vocab_size is 100"});
  expect_refusal({"data", "bpe", "--out", "t", "--vocab-size", "9000", "text.txt"},
                 {"too small for vocab_size 9000"});
  expect_refusal({"data", "bpe", "text.txt"}, {"tessera data bpe: --out is missing; see --help"}, 2);
  folder.write("lines.jsonl", "{\"text\": \"one\"}\n{\"body\": \"two\"}\n");
  expect_refusal({"data", "build", "--out", "c", "--tokenizer", "tokens", "lines.jsonl"},
                 {"lines.jsonl", "text"});
  folder.write("lines.jsonl", "{\"text\": \"one\"}\n{\"text\": \n");
  expect_refusal({"data", "build", "--out", "c", "--tokenizer", "tokens", "lines.jsonl"}, {"lines.jsonl"});
  expect_refusal({"data", "build", "--out", "c", "--tokenizer", "tokens", "--documents", "word", "text.txt"},
                 {"--documents: found 'word', expected file, paragraph or line"});
  for (const char* name : {"t", "c.bin", "c.idx"}) EXPECT_FALSE(fs::exists(path() / name)) << name;
}

}  // namespace
}  // namespace tessera
