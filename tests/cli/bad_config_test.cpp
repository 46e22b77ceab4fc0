// Configs that cannot be run, through the program: each is refused with its file or key, what was found
// and what was expected, before anything is written.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class BadConfigTest : public ProgramTestFolder {
 protected:
  void TearDown() override { EXPECT_FALSE(std::filesystem::exists(path() / "run")); }
};

TEST_F(BadConfigTest, FilesThatAreNoConfig) {
  expect_refusal({"train", "absent.yaml"}, {"cannot open absent.yaml", "No such file"});
  expect_refusal({"train", "."}, {"cannot read .", "not a regular file"});
  folder.write("empty.yaml", "");
  expect_refusal({"train", "empty.yaml"}, {"empty.yaml", "found no keys"});
  folder.write("broken.yaml", "model: {type: llama\ntrain: [1");
  expect_refusal({"train", "broken.yaml"}, {"broken.yaml:", "not YAML"});
  folder.write("list.yaml", "- 1\n- 2\n");
  expect_refusal({"train", "list.yaml"}, {"list.yaml:1", "found a list, expected a map of keys"});
  folder.write("binary.yaml", std::string("\x7f\x45LF\x02\x00\x01", 7));
  expect_refusal({"train", "binary.yaml"}, {"binary.yaml"});
}

TEST_F(BadConfigTest, QuotesThatAreNotClosed) {
  for (const std::string quote : {"'", "\""}) {
    SCOPED_TRACE(quote);
    folder.write("quote.yaml", "train:\n  out: " + quote + "run\n  steps: 5\nprecision: bf16\n");
    expect_refusal({"train", "quote.yaml"}, {"train.out", quote, "expected a closed quote", "quote.yaml:2"});
    folder.write("list.yaml", "optimizer:\n  no_decay: [norm, " + quote + "bias]\n");
    expect_refusal({"train", "list.yaml"}, {"list.yaml"});
  }
  folder.write("closed.yaml",
               "train: {out: 'it''s \"one\"', steps: \"5\"} # don't\nprecision: \"fp\\x332\"\n");
  expect_refusal({"plan", "closed.yaml"}, {"model.hidden_size: found 0"});
}

// Folders "a" and "a\0b" are one to the system.
TEST_F(BadConfigTest, ControlCharacters) {
  folder.write("zero.yaml", "train: {out: \"run\\0b\"}\n");
  expect_refusal({"train", "zero.yaml"},
                 {"train.out: found the control character 0x00 behind 'run', expected", "zero.yaml:1"});
  expect_refusal({"train", "run.yaml", "train.out=a\nb"}, {"train.out: found the control character 0x0a"});
  expect_refusal({"train", "run.yaml", "optimizer.no_decay=norm,b\x7f"},
                 {"optimizer.no_decay: item 1: found the control character 0x7f behind 'b'"});
}

TEST_F(BadConfigTest, UnknownKeysGetASuggestion) {
  expect_refusal({"train", "run.yaml", "train.stps=3"},
                 {"unknown key 'train.stps'", "did you mean 'train.steps'"});
  expect_refusal({"plan", "run.yaml", "trian.steps=3"},
                 {"unknown key 'trian.steps'", "did you mean 'train.steps'"});
  folder.write("typo.yaml", "model: {hiden_size: 3}\n");
  expect_refusal({"train", "typo.yaml"},
                 {"model.hiden_size", "typo.yaml:1", "did you mean 'model.hidden_size'"});
  expect_refusal({"train", "run.yaml", "steps"}, {"found 'steps'", "expected key=value"});
}

TEST_F(BadConfigTest, WrongTypesAndImpossibleValues) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"train.steps=many", "train.steps: found 'many', expected an integer"},
      {"train.steps=1.5", "train.steps: found '1.5', expected an integer"},
      {"train.steps=0", "train.steps: found 0, expected at least 1"},
      {"train.steps=99999999999999999999",
       "train.steps: found 99999999999999999999, expected at most 9223372036854775807"},
      {"train.steps=-99999999999999999999", "train.steps: found -99999999999999999999, expected at least 1"},
      {"threads=99999999999999999999", "threads: found 99999999999999999999, expected at most 4096"},
      {"train.steps=99999999999999999999x",
       "train.steps: found '99999999999999999999x', expected an integer"},
      {"optimizer.lr=fast", "optimizer.lr: found 'fast', expected a number"},
      {"optimizer.lr=-1", "optimizer.lr: found -1, expected at least 0"},
      {"optimizer.lr=nan", "optimizer.lr: found 'nan', expected a number"},
      {"optimizer.beta2=1", "optimizer.beta2: found 1, expected"},
      {"model.tie_embeddings=maybe", "model.tie_embeddings: found 'maybe', expected true or false"},
      {"model.type=lama",
       "model.type: found 'lama', expected llama | gpt2 | qwen2 | gpt_neox | bert; did you mean 'llama'"},
      {"precision=fp64", "precision: found 'fp64', expected fp32 | bf16"},
      {"device=gpu", "device: found 'gpu', expected cpu | cuda | null"},
      {"threads=-1", "threads: found -1, expected at least 0"},
      {"data.valid_fraction=1", "data.valid_fraction: found 1, expected"},
      {"model.heads=5", "model.hidden_size = 32 is not a multiple of model.heads = 5"},
      {"model.kv_heads=3", "model.heads = 4 is not a multiple of model.kv_heads = 3"},
      {"train.micro_batch=3", "train.global_batch = 4 is not a multiple of train.micro_batch = 3"},
      {"model.max_positions=8", "train.seq_len = 16 is beyond model.max_positions = 8"},
      {"model.vocab_size=0", "model.vocab_size: found 0, expected at least 1"},
      {"schedule.warmup_steps=50", "schedule.warmup_steps = 50 is beyond schedule.decay_steps = 12"},
      {"model.hidden_size=4000000000",
       "model.hidden_size: found 4000000000, expected at least 0 and at most"},
      {"model.layers=3000000", "model.layers: found 3000000, expected at least 0 and at most 10000"},
      {"model.vocab_size=3000000000", "model.vocab_size: found 3000000000, expected"},
      {"train.seq_len=9000000000000", "train.seq_len: found 9000000000000, expected"},
      {"train.global_batch=9000000000000", "train.global_batch: found 9000000000000, expected"},
      {"data.prefix=", "data.prefix is empty"},
      {"data.prefix=nope", "data.prefix: cannot open nope.idx"},
      {"data.valid_prefix=nope", "data.valid_prefix: cannot open nope.idx"},
      {"data.tokenizer=nope", "data.tokenizer: no tokenizer at nope: no such file or folder"},
      {"train.out=", "train.out is empty: expected a folder for the run"},
      {"device=null", "device: found null, expected cpu"},
      {"optimizer.lr=1e300", "optimizer.lr: found 1e300, expected a number that fp32 holds: at most 3.40"},
      {"optimizer.lr=1e400", "optimizer.lr: found 1e400, expected a number that fp32 holds: at most 3.40"},
      {"optimizer.lr=-1e400", "optimizer.lr: found -1e400, expected at least 0"},
      {"optimizer.beta2=1e400", "optimizer.beta2: found 1e400, expected"},
      {"optimizer.eps=1e-400", "optimizer.eps: found 1e-400, expected a number that fp32 holds"},
      {"optimizer.eps=1e-18", "optimizer.eps: found 1e-18, expected at least 1e-15"},
      {"optimizer.eps=1e-300", "optimizer.eps: found 1e-300, expected a number that fp32 holds"},
      {"model.vocab_size=2147483647", "in all: this machine has"},
      {"optimizer.no_decay=norm,", "optimizer.no_decay: item 1: found nothing, expected text"},
      {"train.out=run\xff", "train.out: found 'run\xff', expected UTF-8"},
      {"train.keep_last=4294967297", "train.keep_last: found 4294967297, expected"},
      {"pipeline.layers=1,1", "pipeline.layers needs a pipeline, but parallel.pp is 1"},
      {"model.token_types=1", "model.token_types: found 1, expected at least 2"},
  };
  for (const auto& [assignment, message] : cases)
    expect_refusal({"train", "run.yaml", assignment}, {message});
  folder.write("types.yaml", "train: {steps: [1, 2]}\n");
  expect_refusal({"train", "types.yaml"}, {"train.steps: found a list, expected an integer", "types.yaml:1"});
}

TEST_F(BadConfigTest, SequencesLongerThanTheCorpusOrThePositions) {
  expect_refusal({"train", "run.yaml", "train.seq_len=5000"}, {"corpus.bin", "found 3000 tokens", "5001"});
  folder.write("hf.yaml",
               "model: {config: config.json}\ndata: {prefix: corpus}\ntrain: {seq_len: 32, out: run}\n");
  folder.write("config.json",
               R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 1, "n_head": 4,
    "n_positions": 16, "attn_pdrop": 0})");
  expect_refusal({"train", "hf.yaml"}, {"train.seq_len is 32", "only 16 positions"});
  expect_refusal({"train", "hf.yaml", "train.seq_len=16", "model.layers=2"},
                 {"model.config and model.layers"});
}

}  // namespace
}  // namespace tessera
