// The token that a vocabulary's own program puts before every text, Llama's <s>: where it comes in, and where
// it must not.
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <cstring>

#include "cli/program_test_folder.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/text/tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kBegin = 1, kEnd = 2;

class BeginOfTextTest : public ProgramTestFolder {
 protected:
  BeginOfTextTest() {
    fs::copy(fs::path(TESSERA_SOURCE_DIR) / "LICENSE", path() / "text.txt");
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--model_type=bpe --byte_fallback=true --normalization_rule_name=identity --vocab_size=400 "
        "--remove_extra_whitespaces=false --minloglevel=2 --input=" +
        (path() / "text.txt").string() + " --model_prefix=" + (path() / "small").string());
    EXPECT_TRUE(status.ok()) << status.ToString();
    tokenizer = open_tokenizer(path() / "small.model");
    folder.write("two.jsonl", "{\"text\": \"the license\"}\n{\"text\": \"of the work\"}\n");
  }

  // The ids of both texts of two.jsonl.
  Ids both(const Ids& before, const Ids& behind) const {
    Ids ids;
    for (const char* text : {"the license", "of the work"}) {
      for (const Ids& part : {before, tokenizer->encode(text), behind})
        ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }

  // The only corpus of blocks in a folder.
  Ids blocks_in(const std::string& name) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path() / name)) {
      if (entry.path().extension() == ".bin") found.push_back(entry.path());
    }
    EXPECT_EQ(found.size(), 1u);
    const IndexedDataset corpus(found.at(0).replace_extension());
    Ids ids;
    for (std::int64_t i = 0; i < corpus.num_sequences(); ++i) {
      for (const std::int32_t id : corpus.sequence(i)) ids.push_back(id);
    }
    return ids;
  }

  std::unique_ptr<Tokenizer> tokenizer;
};

TEST_F(BeginOfTextTest, StandsBeforeEveryTextOfBlocks) {
  const Ids expected = both({kBegin}, {});
  expect_success({"data", "blocks", "--out", "blocks", "--tokenizer", "small.model", "--block",
                  std::to_string(expected.size()), "two.jsonl"});
  EXPECT_EQ(blocks_in("blocks"), expected);

  folder.write("text.yaml", fmt::format(R"(
model: {{type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}}
data: {{kind: text, texts: [two.jsonl], tokenizer: small.model, cache: cache, valid_fraction: 0}}
train: {{steps: 1, seq_len: {}, global_batch: 1, micro_batch: 1, out: run}}
)",
                                        expected.size()));
  expect_success({"train", "text.yaml"});
  EXPECT_EQ(blocks_in("cache"), expected);
}

// A copy that lost the setting would put <s> before texts that the model was trained without.
TEST_F(BeginOfTextTest, IsLeftOutOfAConvertedModelToo) {
  folder.write("tokenizer_config.json", R"({"add_bos_token": false})");
  folder.write("text.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48, max_positions: 32}
data: {kind: text, texts: [text.txt], tokenizer: small.model, cache: cache, valid_fraction: 0}
train: {steps: 1, seq_len: 32, global_batch: 1, micro_batch: 1, out: run}
)");
  expect_success({"train", "text.yaml"});
  expect_success({"convert", "run", "hf"});
  EXPECT_EQ(bytes_of(path() / "hf/tokenizer_config.json"), bytes_of(path() / "tokenizer_config.json"));
  EXPECT_EQ(open_tokenizer(path() / "hf")->begin_of_text(), std::nullopt);
}

// Megatron's own preprocessing puts none into its corpora, and `tokenize` gives the ids of the text alone.
TEST_F(BeginOfTextTest, IsNotInCorporaNorAmongATextsIds) {
  expect_success({"data", "build", "--out", "corpus2", "--tokenizer", "small.model", "two.jsonl"});
  const IndexedDataset corpus(path() / "corpus2");
  Ids ids = corpus.sequence(0), second = corpus.sequence(1);
  ids.insert(ids.end(), second.begin(), second.end());
  EXPECT_EQ(ids, both({}, {kEnd}));

  expect_success({"data", "tokenize", "--tokenizer", "small.model", "--in", "text.txt", "--out", "ids"});
  const std::string bytes = bytes_of(path() / "ids");
  Ids of_text(bytes.size() / 4);
  std::memcpy(of_text.data(), bytes.data(), bytes.size());
  EXPECT_EQ(of_text, tokenizer->encode(bytes_of(path() / "text.txt")));
}

// Texts in which "the" goes on with "license" where it begins one, and with "work" anywhere else.
TEST_F(BeginOfTextTest, StandsBeforeAPromptAndIsNotPrinted) {
  std::string works = "of the work", lines;
  for (int i = 0; i < 12; ++i) works += " of the work";
  for (int i = 0; i < 400; ++i) lines += "{\"text\": \"" + (i % 4 == 0 ? works : "the license") + "\"}\n";
  folder.write("lines.jsonl", lines);
  folder.write("text.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}
data: {kind: text, texts: [lines.jsonl], tokenizer: small.model, cache: cache, valid_fraction: 0}
train: {steps: 100, seq_len: 32, global_batch: 8, micro_batch: 8, out: run}
optimizer: {lr: 0.01}
)");
  expect_success({"train", "text.yaml"});
  const auto generated = [&](const std::string& prompt, const std::string& more) {
    const std::size_t num_tokens = tokenizer->encode(prompt + more).size() - tokenizer->encode(prompt).size();
    return expect_success({"generate", "run", "--prompt", prompt, "--temperature", "0", "--tokens",
                           std::to_string(num_tokens)})
        .out;
  };
  EXPECT_EQ(generated("the", " license"), "the license\n");
  EXPECT_EQ(generated("of the", " work"), "of the work\n");
  EXPECT_EQ(generated("", "the license"), " the license\n");

  // Of documents the model has seen that they begin behind the end of another one.
  expect_success({"data", "build", "--out", "documents", "--tokenizer", "small.model", "lines.jsonl"});
  folder.write("tokens.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}
data: {kind: tokens, prefix: documents, tokenizer: small.model, valid_fraction: 0}
train: {steps: 100, seq_len: 32, global_batch: 8, micro_batch: 8, out: run}
optimizer: {lr: 0.01}
)");
  fs::remove_all(path() / "run");
  expect_success({"train", "tokens.yaml"});
  EXPECT_EQ(generated("", "the license"), " the license\n");
  // The token that ends the document ends the text, long before the tokens that were asked for.
  EXPECT_EQ(expect_success({"generate", "run", "--prompt", "", "--temperature", "0", "--tokens", "60"}).out,
            " the license\n");
}

}  // namespace
}  // namespace tessera
