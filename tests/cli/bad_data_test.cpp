// Data that a run cannot train on, through the program: each refused with the file or key, what was found and
// what was expected, before anything is written.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"
#include "tessera/data/bert_shard.h"
#include "tessera/data/hdf5_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class BadDataTest : public ProgramTestFolder {
 protected:
  BadDataTest() {
    folder.write("bert.json", R"({"model_type": "bert", "vocab_size": 30522, "hidden_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 64,
      "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
    folder.write("bert.yaml", R"(
model: {config: bert.json}
data: {kind: bert, shards: shards}
train: {steps: 2, seq_len: 64, global_batch: 8, micro_batch: 1, out: run}
threads: 1
)");
    fs::create_directory(path() / "shards");
    for (const char* number : {"0", "1", "2"}) {
      const std::string name = std::string("wikicorpus_training_") + number + ".hdf5";
      fs::copy(kGolden / "bert_hdf5" / name, path() / "shards" / name);
    }
  }

  void refuse(std::vector<std::string> arguments, const std::vector<std::string>& parts) const {
    arguments.insert(arguments.begin(), "train");
    expect_refusal(arguments, parts);
    EXPECT_FALSE(fs::exists(path() / "run"));
  }
};

TEST_F(BadDataTest, ShardsThatMissADataset) {
  const BertShard shard = read_bert_shard(path() / "shards/wikicorpus_training_1.hdf5");
  Hdf5Writer file(path() / "shards/wikicorpus_training_1.hdf5");
  file.write("input_ids", shard.input_ids, {shard.num_rows, shard.seq_len});
  file.write("input_mask", shard.input_mask, {shard.num_rows, shard.seq_len});
  file.write("masked_lm_positions", shard.masked_lm_positions, {shard.num_rows, shard.max_predictions});
  file.commit();
  refuse({"bert.yaml"},
         {"shards/wikicorpus_training_1.hdf5", "no dataset \"segment_ids\"", "found: ", "input_mask"});
}

TEST_F(BadDataTest, FewerShardsThanDataParallelRanks) {
  refuse({"bert.yaml", "parallel.dp=4"},
         {"shards: found 3 shards, expected at least 4", "data-parallel rank"});
  refuse({"bert.yaml", "data.shards=gone"}, {"data.shards: gone: no such folder"});
  refuse({"bert.yaml", "data.shards="}, {"data.shards is empty", "*_training_*.hdf5"});
}

TEST_F(BadDataTest, ShardsOfAnotherLengthOrWithForeignValues) {
  refuse({"bert.yaml", "train.seq_len=32"},
         {"wikicorpus_training_0.hdf5", "sequences of 64 tokens, expected 32"});
  const fs::path file = path() / "shards/wikicorpus_training_0.hdf5";
  const BertShard good = read_bert_shard(file);
  const auto refuse_shard = [&](const BertShard& shard, const std::vector<std::string>& parts) {
    for (const char* number : {"0", "1", "2"})
      write_bert_shard(path() / "shards" / (std::string("wikicorpus_training_") + number + ".hdf5"), shard);
    expect_refusal({"train", "bert.yaml"}, parts);
  };
  BertShard bad = good;
  bad.next_sentence_labels[3] = 2;
  refuse_shard(bad, {"_training_", "next_sentence_labels has 2, expected 0 to 1"});
  bad = good;
  bad.input_mask[0] = 0;
  refuse_shard(bad, {"_training_", "row 0 of input_mask", "expected padding at the end"});
  bad = good;
  bad.input_ids[5] = 30522;
  refuse_shard(bad, {"_training_", "input_ids is id 30522", "vocabulary has 30522 ids"});
}

TEST_F(BadDataTest, AnIndexLongerThanItsData) {
  fs::resize_file(path() / "corpus.bin", fs::file_size(path() / "corpus.bin") - 2);
  for (const char* kind : {"tokens", "megatron"}) {
    refuse({"run.yaml", std::string("data.kind=") + kind},
           {"corpus.bin: truncated: found 5998 bytes", "6000 bytes"});
  }
}

TEST_F(BadDataTest, MoreSamplesThanNumbers) {
  const std::string most = "9223372036854775807";
  expect_refusal({"data", "index", "--prefix", "corpus", "--seq", "32", "--samples", most, "--out", "index"},
                 {most + " samples of 32 tokens", "at most 2^60 tokens"});
  expect_refusal({"data", "index", "--prefix", "corpus", "--seq", most, "--samples", "2", "--out", "index"},
                 {"2 samples of " + most, "at most 2^60 tokens"});
  expect_refusal({"data", "index", "--prefix", "corpus", "--split", "1,0,0", "--seq", "32", "--samples",
                  "9999999999999999", "--out", "index"},
                 {"--samples: found 9999999999999999", "epochs", "this machine has"});
  EXPECT_FALSE(fs::exists(path() / "index"));
  for (const std::string assignment : {"data.samples=9999999999999999", "train.steps=9999999999999"}) {
    const std::string found = assignment.substr(assignment.find('=') + 1);
    const std::string key = assignment.substr(0, assignment.find('='));
    refuse({"run.yaml", "data.kind=megatron", "data.split=1,0,0", "data.cache=index", assignment},
           {key + ": found " + found + ", which asks for", "epochs", "this machine has"});
  }
  EXPECT_FALSE(fs::exists(path() / "index"));
  const ProgramResult all =
      expect_success({"train", "run.yaml", "train.eval_batches=" + most, "train.steps=4", "train.out=all"});
  EXPECT_EQ(all.out.find("range_check"), std::string::npos) << all.text();
  const ProgramResult evaluated = expect_success({"eval", "all", "--batches", "4611686018427387905"});
  EXPECT_EQ(evaluated.out, expect_success({"eval", "all"}).out);
}

TEST_F(BadDataTest, Blends) {
  const auto refuse_blend = [&](const std::string& blend, const std::vector<std::string>& parts) {
    refuse({"run.yaml", "data.kind=megatron", "data.prefix=", "data.split=1,0,0", "data.blend=" + blend},
           parts);
  };
  refuse_blend("0,corpus,0.0,corpus",
               {"data.blend", "add up to 0", "corpus, corpus", "expected a sum above 0"});
  refuse_blend("1,corpus,0,corpus", {"data.blend: the weight of corpus is 0"});
  refuse_blend("0.5,corpus,-1,corpus", {"data.blend", "'-1' as the weight of corpus"});
  refuse_blend("corpus,0.5", {"data.blend", "'corpus' as the weight of 0.5"});
  refuse_blend("0.5,corpus,0.5", {"data.blend: found 3 items", "a weight and a prefix"});
  refuse_blend("0.5,corpus,0.5,gone", {"data.blend: cannot open gone.idx", "No such file"});
  fs::create_directory(path() / "other");
  for (const char* file : {"corpus.bin", "corpus.idx"}) fs::copy_file(path() / file, path() / "other" / file);
  refuse({"run.yaml", "data.kind=megatron", "data.prefix=", "data.split=1,0,0", "data.cache=maps",
          "data.blend=0.5,corpus,0.5,other/corpus"},
         {"data.cache = maps", "corpus and other/corpus", "the same name"});
  refuse({"run.yaml", "data.kind=megatron", "data.blend=1,corpus"},
         {"data.prefix and data.blend are both given"});
  refuse({"run.yaml", "data.kind=megatron", "data.split=0,1,0"},
         {"corpus: the split 0,1,0 leaves no document of 1 for train"});
}

TEST_F(BadDataTest, ACacheThatCannotBeMade) {
  folder.write("file", "");
  refuse({"run.yaml", "data.kind=megatron", "data.split=1,0,0", "data.cache=file/maps"},
         {"data.cache: cannot create folder file/maps: Not a directory"});
}

TEST_F(BadDataTest, TextsThatAreNotThere) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  folder.write("short.txt", "word word\n");
  folder.write("text.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48}
data: {kind: text, texts: [short.txt], tokenizer: vocab.txt}
train: {steps: 2, seq_len: 16, global_batch: 4, micro_batch: 2, out: run}
)");
  refuse({"text.yaml", "data.texts=nope.txt"}, {"data.texts: cannot read nope.txt: No such file"});
  refuse({"text.yaml", "data.valid_texts=nope.txt"}, {"data.valid_texts: cannot read nope.txt"});
  refuse({"text.yaml"}, {"data.texts: found 2 tokens", "expected at least one block of 16"});
  refuse({"text.yaml", "data.tokenizer=nope"}, {"data.tokenizer: no tokenizer at nope"});
  refuse({"text.yaml", "train.seq_len=1"}, {"train.seq_len: found 1, expected at least 2"});
}

TEST_F(BadDataTest, AKeyOfFilesWithoutKeys) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  folder.write("text.txt", "word word word\n");
  folder.write("lines.jsonl", "{\"body\": \"word\"}\n");
  for (const std::string command : {"build", "blocks"}) {
    expect_refusal(
        {"data", command, "--out", "made", "--tokenizer", "vocab.txt", "--key", "body", "text.txt"},
        {"--key: found 'body', but no file of JSON lines"});
  }
  expect_success({"data", "build", "--out", "made", "--tokenizer", "vocab.txt", "--key", "body", "text.txt",
                  "lines.jsonl"});
}

TEST_F(BadDataTest, ATokenizerForAnotherVocabulary) {
  folder.write(
      "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + [] {
        std::string words;
        for (int i = 0; i < 100; ++i) words += "word" + std::to_string(i) + "\n";
        return words;
      }());
  folder.write("gpt2.json",
               R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 16, "n_layer": 1, "n_head": 2,
    "n_positions": 16, "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0})");
  folder.write("text.txt", "word1 word2\n");
  refuse({"run.yaml", "data.tokenizer=vocab.txt"}, {"model.vocab_size = 61", "105 tokens", "vocab.txt"});
  folder.write(
      "config.yaml",
      "model: {config: gpt2.json}\ndata: {prefix: corpus}\ntrain: {steps: 2, seq_len: 16, out: run}\n");
  refuse({"config.yaml", "data.tokenizer=vocab.txt"},
         {"vocab.txt: found a tokenizer of 105 ids, expected at most 61, the model's vocabulary"});
  expect_success({"train", "config.yaml"});
  const std::vector<std::string> sizes{"vocab.txt: found a tokenizer of 105 ids, expected at most 61"};
  expect_refusal({"eval", "run", "data.tokenizer=vocab.txt"}, sizes);
  expect_refusal({"eval", "run", "data.kind=text", "--data", "text.txt", "data.tokenizer=vocab.txt"}, sizes);
  expect_refusal({"generate", "run", "--tokenizer", "vocab.txt", "--prompt", "word1"}, sizes);
}

TEST_F(BadDataTest, KeysThatDoNotGoTogether) {
  refuse({"run.yaml", "data.kind=wiki"},
         {"data.kind: found 'wiki', expected tokens | megatron | bert | text"});
  refuse({"run.yaml", "data.split=1,1,1"},
         {"data.split does not go with data.kind = tokens, which reads data.prefix"});
  refuse({"run.yaml", "data.kind=text"}, {"data.prefix does not go with data.kind = text", "data.texts"});
  refuse({"run.yaml", "data.kind=megatron", "data.valid_fraction=0.2"},
         {"data.valid_fraction does not go with data.kind = megatron"});
  refuse({"run.yaml", "data.kind=megatron", "data.split=a,b"}, {"data.split: ", "found \"a\""});
  refuse({"bert.yaml", "data.texts=a,b"}, {"data.texts does not go with data.kind = bert"});
  refuse({"run.yaml", "data.kind=text", "data.prefix=", "data.texts=corpus.idx"},
         {"data.tokenizer is empty", "data.kind = text"});
  refuse({"run.yaml", "data.kind=bert", "data.prefix=", "data.shards=shards"},
         {"data.kind = bert", "a model that continues texts"});
  refuse({"bert.yaml", "data.kind=tokens", "data.shards=", "data.prefix=corpus"},
         {"data.kind = tokens has no ", "which the model reads", "expected bert"});
}

}  // namespace
}  // namespace tessera
