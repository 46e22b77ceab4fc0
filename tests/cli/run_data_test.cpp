// Training and evaluation on every kind of data with the program alone, and with every kind of tokenizer.
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A BERT's vocab.txt with the words of a text, and the text with a clause per line.
class RunDataTest : public ProgramTestFolder {
 protected:
  RunDataTest() {
    const std::string license = bytes_of(fs::path(TESSERA_SOURCE_DIR) / "LICENSE");
    folder.write("text.txt", license);
    std::set<std::string> words;
    std::string word, sentences;
    for (std::size_t i = 0; i < license.size(); ++i) {
      const char c = license[i];
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        word += static_cast<char>(std::tolower(c));
      } else if (!word.empty()) {
        words.insert(word);
        word.clear();
      }
      const bool paragraph = c == '\n' && license.substr(i, 2) == "\n\n";
      sentences += paragraph ? "\n\n" : c == '\n' ? " " : std::string(1, c);
      if (c == '.' || c == ';' || c == ',') sentences += '\n';
    }
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n;\n(\n)\n";
    for (const std::string& each : words) vocabulary += each + "\n";
    folder.write("vocab.txt", vocabulary);
    num_words_ = 10 + std::ssize(words);
    folder.write("sentences.txt", sentences);
  }

  // A BERT whose vocabulary is that of vocab.txt, and a run on the shards of the text.
  void make_bert_run() const {
    expect_success({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--shards", "4", "--seq",
                    "32", "--predictions", "5", "--copies", "4", "sentences.txt"});
    expect_success({"data", "bert", "--out", "valid", "--tokenizer", "vocab.txt", "--shards", "1", "--seq",
                    "32", "--predictions", "5", "--copies", "1", "--seed", "7", "sentences.txt"});
    folder.write("bert.json", fmt::format(R"({{"model_type": "bert", "vocab_size": {}, "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 32,
      "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}})",
                                          num_words_));
    folder.write("bert.yaml", R"(
model: {config: bert.json}
data: {kind: bert, shards: shards, valid_shards: valid, tokenizer: vocab.txt}
train: {steps: 60, seq_len: 32, global_batch: 16, micro_batch: 4, eval_every: 60, eval_batches: 1000, out: run}
optimizer: {lr: 0.01}
threads: 1
)");
  }

  // What `tessera eval` printed, with six decimals, of a model whose loss is known: the batches are of
  // another size, so that the sums come in another order.
  static double loss_of(const ProgramResult& evaluated) {
    EXPECT_TRUE(evaluated.out.starts_with("loss ")) << evaluated.text();
    return std::stod(evaluated.out.substr(5));
  }
  static void expect_loss(const ProgramResult& evaluated, double loss) {
    EXPECT_NEAR(loss_of(evaluated), loss, 2e-6 * loss) << evaluated.text();
  }

  std::vector<StepReport> reports(const std::string& run) const {
    return read_jsonl_log(path() / run / "metrics.jsonl");
  }

  std::int64_t num_words_ = 0;
};

TEST_F(RunDataTest, BertLearnsAText) {
  make_bert_run();
  expect_success({"train", "bert.yaml"});
  const std::vector<StepReport> one = reports("run");
  EXPECT_LT(one.back().loss, 0.9 * one.front().loss);
  EXPECT_LT(*one.back().eval_loss, 0.9 * one.front().loss);
  expect_success({"train", "bert.yaml", "train.out=ranks", "parallel.dp=2", "parallel.tp=2",
                  "train.micro_batch=2", "train.steps=10", "schedule.decay_steps=60"});
  const std::vector<StepReport> ranks = reports("ranks");
  ASSERT_EQ(ranks.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(ranks[i].loss, one[i].loss, 1e-5 * one[i].loss) << i;

  const ProgramResult evaluated = expect_success({"eval", "run", "--batch", "3"});
  expect_loss(evaluated, *one.back().eval_loss);
  EXPECT_NE(evaluated.out.find("  targets loss "), std::string::npos) << evaluated.text();
  EXPECT_NE(evaluated.out.find("  next_sentence loss "), std::string::npos) << evaluated.text();
  expect_success({"convert", "run", "hf"});
  EXPECT_EQ(names_in(path() / "hf"),
            (std::vector<std::string>{"config.json", "model.safetensors", "vocab.txt"}));
  EXPECT_EQ(expect_success({"eval", "hf", "--data", "valid", "--batch", "3", "data.kind=bert"}).out,
            evaluated.out);
  expect_refusal({"generate", "run", "--prompt", "the"},
                 {"run does not continue texts", "expected a causal one"});
}

TEST_F(RunDataTest, TextsAreCutOnceAndThenReused) {
  folder.write("text.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}
data: {kind: text, texts: [text.txt], tokenizer: vocab.txt, cache: blocks, valid_fraction: 0.1}
train: {steps: 40, seq_len: 32, global_batch: 8, micro_batch: 4, eval_every: 40, eval_batches: 1000, out: run}
optimizer: {lr: 0.01}
)");
  const ProgramResult first = expect_success({"train", "text.yaml", "parallel.dp=2"});
  EXPECT_NE(first.err.find("made "), std::string::npos) << first.text();
  EXPECT_NE(first.err.find(" blocks of 32 tokens from "), std::string::npos) << first.text();
  EXPECT_NE(first.err.find("  perplexity "), std::string::npos) << first.text();
  EXPECT_LT(reports("run").back().loss, 0.9 * reports("run").front().loss);
  const ProgramResult again = expect_success({"train", "text.yaml", "train.out=again", "parallel.dp=2"});
  EXPECT_NE(again.err.find("reusing "), std::string::npos) << again.text();
  EXPECT_NE(again.err.find("have not changed"), std::string::npos) << again.text();
  expect_same_run("run", "again", "step-00000040");

  const ProgramResult evaluated = expect_success({"eval", "run"});
  EXPECT_NE(evaluated.err.find("reusing "), std::string::npos) << evaluated.text();
  expect_loss(evaluated, *reports("run").back().eval_loss);
  folder.write("other.jsonl", "{\"text\": \"" + std::string(400, 'x') + " the license of the work\"}\n");
  expect_refusal({"eval", "run", "--data", "other.jsonl"},
                 {"--data = other.jsonl: found ", "expected at least one block of 32"});
  expect_success({"eval", "run", "--data", "text.txt", "--batches", "2"});
  const std::string text =
      expect_success({"generate", "run", "--prompt", "the license", "--tokens", "5"}).out;
  EXPECT_TRUE(text.starts_with("the license")) << text;
}

// NeMo's corpus, maps under NeMo's names; then a corpus evaluated as a whole, in two orders of its samples.
TEST_F(RunDataTest, MegatronCorpora) {
  folder.write("gpt2.yaml", R"(
model: {type: gpt2, hidden_size: 8, layers: 1, heads: 2, ffn_size: 8, vocab_size: 50257, activation: gelu_tanh}
data: {kind: megatron, split: "980,10,10", cache: maps, samples: 367}
train: {steps: 1, seq_len: 64, global_batch: 1, micro_batch: 1, eval_every: 1, eval_batches: 1, out: golden}
threads: 1
)");
  const std::string corpus = (kGolden / "megatron/corpus").string();
  const ProgramResult made = expect_success({"train", "gpt2.yaml", "data.prefix=" + corpus});
  EXPECT_NE(made.err.find("made maps/corpus_train_indexmap_367ns_64sl_1234s_doc_idx.npy"), std::string::npos)
      << made.text();
  EXPECT_NE(expect_success({"eval", "golden"}).err.find("reusing maps/corpus_valid_indexmap_"),
            std::string::npos);

  expect_success({"train", "run.yaml", "data.kind=megatron", "data.prefix=", "data.split=1,0,0",
                  "data.blend=0.5,corpus,0.5,corpus"});
  const ProgramResult nemo = expect_success({"eval", "run", "--data", "corpus"});
  EXPECT_TRUE(nemo.out.ends_with(fmt::format("over {} tokens\n", 2999 / 16 * 16))) << nemo.text();
  const ProgramResult tokens = expect_success({"eval", "run", "--data", "corpus", "data.kind=tokens"});
  expect_loss(tokens, loss_of(nemo));
}

TEST_F(RunDataTest, ARunThatHeldNothingOutIsEvaluatedOnOtherData) {
  expect_success({"train", "run.yaml", "train.steps=1", "data.valid_fraction=0"});
  expect_refusal({"eval", "run"}, {"the run of run held nothing out: pass --data PATH"});
  expect_success({"eval", "run", "--data", "corpus", "--batches", "1"});
}

TEST_F(RunDataTest, AnEvaluationTakesAsManyBatchesAsAsked) {
  expect_success({"train", "run.yaml", "train.steps=4", "data.valid_fraction=0.05"});
  const auto tokens = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"eval", "run", "--batch", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string out = expect_success(arguments).out;
    return std::stoll(out.substr(out.find(" over ") + 6));
  };
  const std::int64_t all = tokens({}), batch = 2 * 16;
  ASSERT_GT(all, 2 * batch);
  ASSERT_NE(all % batch, 0) << "the last batch should not be whole";
  for (std::int64_t batches = 1; (batches - 1) * batch < all; ++batches)
    EXPECT_EQ(tokens({"--batches", std::to_string(batches)}), std::min(all, batches * batch)) << batches;
}

}  // namespace
}  // namespace tessera
