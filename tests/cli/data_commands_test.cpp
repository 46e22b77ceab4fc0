// `tessera data` from outside: the files it writes and the words with which it refuses bad data.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "cli/program_test_folder.h"
#include "tessera/base/folder_lock.h"
#include "tessera/data/bert_shards.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class DataCommandsTest : public ProgramTestFolder {
 protected:
  DataCommandsTest() {
    folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nlicense\nof\nwork\n##s\n.\n");
    folder.write("text.txt",
                 "The license of the works.\nThe work.\n\nOf the work.\nThe license.\nOf the license.\n");
  }

  std::vector<std::int32_t> read_ids(const char* file) const {
    const std::string bytes = bytes_of(path() / file);
    std::vector<std::int32_t> ids(bytes.size() / 4);
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
  }
};

TEST_F(DataCommandsTest, TokenizeTakesAnyTokenizer) {
  expect_success({"data", "tokenize", "--tokenizer", "vocab.txt", "--in", "text.txt", "--out", "ids"});
  EXPECT_EQ(read_ids("ids"),
            (std::vector<std::int32_t>{5, 6, 7, 5, 8, 9, 10, 5, 8, 10, 7, 5, 8, 10, 5, 6, 10, 7, 5, 6, 10}));
  expect_refusal({"data", "tokenize", "--tokenizer", "text.txt", "--in", "text.txt", "--out", "ids"},
                 {"text.txt", "not a WordPiece vocab.txt", "no [UNK]"});
  expect_refusal({"data", "tokenize", "--tokenizer", ".", "--in", "text.txt", "--out", "x/ids"}, {"x/ids"});
  expect_refusal({"data", "tokenize", "--tokenizer", "run.yaml", "--in", "text.txt", "--out", "ids"},
                 {"run.yaml", "expected a tokenizer.json"});
}

TEST_F(DataCommandsTest, BuildEndsDocumentsWithTheTokenizersOwnToken) {
  expect_success(
      {"data", "build", "--out", "c", "--tokenizer", "vocab.txt", "--documents", "line", "text.txt"});
  EXPECT_EQ(IndexedDataset(path() / "c").sequence(1), (std::vector<std::int32_t>{5, 8, 10, 3}));
}

TEST_F(DataCommandsTest, IndexWritesNemosMaps) {
  const ProgramResult result = expect_success(
      {"data", "index", "--prefix", (kGolden / "megatron/corpus").string(), "--split", "980,10,10", "--part",
       "train", "--seq", "64", "--samples", "367", "--seed", "1234", "--out", "maps"});
  EXPECT_NE(result.out.find("number of epochs:          3"), std::string::npos) << result.text();
  for (const char* map : {"doc_idx.npy", "sample_idx.npy", "shuffle_idx.npy"}) {
    const fs::path golden = kGolden / "megatron" / (std::string("three_epochs_separate_last_") + map);
    EXPECT_TRUE(bytes_of(path() / "maps" / map) == bytes_of(golden)) << map;
  }
}

TEST_F(DataCommandsTest, IndexRefusesBadData) {
  const auto arguments = [](const std::string& prefix, const std::string& split, const std::string& part) {
    return std::vector<std::string>{"data", "index", "--prefix", prefix,      "--split", split,   "--part",
                                    part,   "--seq", "64",       "--samples", "10",      "--out", "maps"};
  };
  expect_refusal(arguments("corpus", "0,0,0", "train"), {"\"0,0,0\"", "add up to 0"});
  expect_refusal(arguments("corpus", "1,1,1", "dev"), {"\"dev\"", "train, valid or test"});
  expect_refusal(arguments("corpus", "1,0,0", "test"), {"corpus", "leaves no document", "for test"});
  expect_refusal(arguments("gone", "1,0,0", "train"), {"gone.idx", "No such file"});
  // An index longer than its data.
  fs::resize_file(path() / "corpus.bin", fs::file_size(path() / "corpus.bin") - 2);
  expect_refusal(arguments("corpus", "1,0,0", "train"),
                 {"corpus.bin", "truncated: found 5998 bytes", "6000 bytes"});
}

TEST_F(DataCommandsTest, BertMakesShards) {
  const ProgramResult made =
      expect_success({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--shards", "2", "--seq",
                      "16", "--predictions", "3", "text.txt"});
  EXPECT_NE(made.out.find("of 2 documents in 2 shards"), std::string::npos) << made.text();
  BertShards shards(path() / "shards", {.vocab_size = 11, .num_data_ranks = 2});
  EXPECT_EQ(shards.seq_len(), 16);
  Batch batch = Batch::of_pairs(8, 16);
  shards.fill(0, batch);
  for (std::size_t row = 0; row < 8; ++row) EXPECT_EQ(batch.inputs[row * 16], 2);
  expect_refusal({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--shards", "1", "text.txt"},
                 {"shards/corpus_training_1.hdf5 is there already", "another --out"});
  {
    const FolderLock other(path() / "shards");
    expect_refusal({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--shards", "2", "--seq",
                    "16", "text.txt"},
                   {"another run is writing into shards"});
  }
  // Not a name that is written again, though the number is.
  fs::rename(path() / "shards/corpus_training_1.hdf5", path() / "shards/corpus_training_01.hdf5");
  expect_refusal({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--shards", "2", "text.txt"},
                 {"shards/corpus_training_01.hdf5 is there already", "another --out"});
  fs::remove(path() / "shards/corpus_training_01.hdf5");
  folder.write("one.txt", "The license.\n");
  expect_refusal({"data", "bert", "--out", "none", "--tokenizer", "vocab.txt", "one.txt"},
                 {"found 1 documents in the texts, expected at least 2"});
  EXPECT_FALSE(std::filesystem::exists(path() / "none"));
  const std::vector<std::string> no_folder{
      "tessera data: cannot create folder text.txt/folder: Not a directory"};
  expect_refusal({"data", "bert", "--out", "text.txt/folder", "--tokenizer", "vocab.txt", "--shards", "2",
                  "--seq", "16", "text.txt"},
                 no_folder);
  expect_refusal({"data", "blocks", "--out", "text.txt/folder", "--tokenizer", "vocab.txt", "text.txt"},
                 no_folder);
  folder.write("words.txt", "[UNK]\nthe\n");
  expect_refusal({"data", "bert", "--out", "shards", "--tokenizer", "words.txt", "text.txt"},
                 {"words.txt", "no [CLS]"});
}

// So would shards of two calls: training reads whatever lies there.
TEST_F(DataCommandsTest, BertShardsAppearTogetherOrNotAtAll) {
  const auto arguments = [](const char* seed, const char* shards) {
    return std::vector<std::string>{"data",      "bert",     "--out",   "shards", "--tokenizer",
                                    "vocab.txt", "--shards", shards,    "--seq",  "16",
                                    "--seed",    seed,       "text.txt"};
  };
  const auto made = [&] {
    std::vector<std::string> all;
    for (const char* name : {"corpus_training_0.hdf5", "corpus_training_1.hdf5"})
      all.push_back(bytes_of(path() / "shards" / name));
    return all;
  };
  expect_success(arguments("1", "2"));
  const std::vector<std::string> before = made();
  fs::create_symlink("/dev/full", path() / "shards/corpus_training_1.hdf5.partial");
  expect_refusal(arguments("2", "2"),
                 {"cannot write shards/corpus_training_1.hdf5.partial: No space left on device"});
  EXPECT_TRUE(made() == before);
  expect_success(arguments("2", "2"));
  EXPECT_FALSE(made() == before);

  // Though all wait for the last one, there may be more of them than files that a process may have open.
  fs::remove_all(path() / "shards");
  std::string documents;
  for (int i = 0; i < 60; ++i) documents += "The license of the works.\nThe work.\n\n";
  folder.write("text.txt", documents);
  const ProgramResult many =
      Program("tessera", arguments("1", "60"), path(), [] { limit(RLIMIT_NOFILE, 40); }).wait();
  EXPECT_EQ(many.exit_code, 0) << many.text();
  EXPECT_EQ(names_in(path() / "shards").size(), 60u);
}

// A folder of new ids and old merges is no tokenizer.
TEST_F(DataCommandsTest, BpeReplacesBothOfItsFilesOrNone) {
  const auto train = [](const char* size) {
    return std::vector<std::string>{"data", "bpe", "--out", "words", "--vocab-size", size, "text.txt"};
  };
  const auto made = [&] {
    return std::pair{bytes_of(path() / "words/vocab.json"), bytes_of(path() / "words/merges.txt")};
  };
  expect_success(train("260"));
  const auto before = made();
  for (const auto& [device, message] : {std::pair{"/dev/full", "cannot write words/merges.txt.partial"},
                                        {"/dev/null", "cannot flush words/merges.txt.partial"}}) {
    fs::create_symlink(device, path() / "words/merges.txt.partial");
    expect_refusal(train("262"), {message});
    EXPECT_TRUE(made() == before);
  }
  {
    const FolderLock other(path() / "words");
    expect_refusal(train("262"), {"another run is writing into words"});
  }
  EXPECT_TRUE(made() == before);
  expect_success(train("262"));
  EXPECT_NE(made().second, before.second);
}

TEST_F(DataCommandsTest, BertRefusesImpossibleOptionsByTheirNames) {
  const std::vector<std::array<std::string, 3>> refused = {
      {"--seq", "3", "expected 5 to 16777216"},         {"--seq", "1000000000", "expected 5 to 16777216"},
      {"--predictions", "0", "expected 1 to 128"},      {"--copies", "0", "expected at least 1"},
      {"--predictions", "129", "expected 1 to 128"},    {"--predictions", "16777216", "expected 1 to 128"},
      {"--mask-probability", "1.5", "expected 0 to 1"}, {"--short-probability", "-0.5", "expected 0 to 1"}};
  for (const auto& [option, value, expected] : refused) {
    expect_refusal({"data", "bert", "--out", "none", "--tokenizer", "vocab.txt", option, value, "text.txt"},
                   {option + ": found " + value + ", " + expected});
  }
  EXPECT_FALSE(fs::exists(path() / "none"));
}

TEST_F(DataCommandsTest, BlocksAreUsedAgain) {
  const std::vector<std::string> arguments = {"data",      "blocks",  "--out", "cache",   "--tokenizer",
                                              "vocab.txt", "--block", "5",     "text.txt"};
  const ProgramResult made = expect_success(arguments), again = expect_success(arguments);
  EXPECT_NE(made.out.find("made 4 blocks of 5 tokens from 6 texts"), std::string::npos) << made.text();
  EXPECT_NE(again.out.find("reusing 4 blocks of 5 tokens"), std::string::npos) << again.text();
}

TEST_F(DataCommandsTest, BlocksMayLieBesideTheirTokenizer) {
  fs::create_directory(path() / "words");
  fs::copy(path() / "vocab.txt", path() / "words/vocab.txt");
  const std::vector<std::string> arguments = {"data",  "blocks",  "--out", "words",   "--tokenizer",
                                              "words", "--block", "5",     "text.txt"};
  expect_success(arguments);
  const ProgramResult again = expect_success(arguments);
  EXPECT_NE(again.out.find("reusing 4 blocks of 5 tokens"), std::string::npos) << again.text();
}

// Maps of two orders would look right together.
TEST_F(DataCommandsTest, IndexMapsAppearTogetherOrNotAtAll) {
  const auto arguments = [](const char* seed) {
    const std::string prefix = (kGolden / "megatron/corpus").string();  // of documents that can be shuffled
    return std::vector<std::string>{"data",      "index", "--prefix", prefix, "--seq",  "4",
                                    "--samples", "50",    "--out",    "maps", "--seed", seed};
  };
  expect_success(arguments("1"));
  const auto maps = [&] {
    std::vector<std::string> all;
    for (const char* name : {"doc_idx.npy", "sample_idx.npy", "shuffle_idx.npy"})
      all.push_back(bytes_of(path() / "maps" / name));
    return all;
  };
  const std::vector<std::string> before = maps();
  fs::create_symlink("/dev/full", path() / "maps/shuffle_idx.npy.partial");
  expect_refusal(arguments("2"), {"cannot write maps/shuffle_idx.npy.partial: No space left on device"});
  EXPECT_EQ(maps(), before);
  fs::create_symlink("/dev/null", path() / "maps/sample_idx.npy.partial");  // takes bytes, cannot flush them
  expect_refusal(arguments("2"), {"cannot flush maps/sample_idx.npy.partial: Invalid argument"});
  EXPECT_EQ(maps(), before);
  {
    const FolderLock other(path() / "maps");
    expect_refusal(arguments("2"), {"another run is writing into maps"});
  }
  EXPECT_EQ(maps(), before);
  expect_success(arguments("2"));
  EXPECT_NE(maps(), before);
}

}  // namespace
}  // namespace tessera
