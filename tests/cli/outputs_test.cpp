// Where the commands' own files go: never over what they read, never over another model, and nothing is left
// where a disk takes none of it.
#include <gtest/gtest.h>

#include <cstring>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class OutputsTest : public ProgramTestFolder {
 protected:
  OutputsTest() {
    folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nlicense\nof\nwork\n##s\n.\n");
    folder.write("text.txt", "The license of the works.\nThe work.\n\nOf the work.\nThe license.\n");
    fs::copy(kGolden / "llama", path() / "model");
  }

  // The command names both files and leaves `input` as it was.
  void refuse_over(const std::string& input, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& parts) const {
    const std::string before = bytes_of(path() / input);
    ASSERT_FALSE(before.empty());
    expect_refusal(arguments, parts);
    EXPECT_EQ(bytes_of(path() / input), before) << input;
  }

  // The weights' first number becomes `bytes`, a little-endian fp32.
  void spoil_first_weight(const std::string& bytes) const {
    std::string file = bytes_of(path() / "model/model.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    file.replace(8 + header, bytes.size(), bytes);
    folder.write("model/model.safetensors", file);
  }
};

TEST_F(OutputsTest, AnInputIsNotWrittenOver) {
  refuse_over("text.txt",
              {"data", "tokenize", "--tokenizer", "vocab.txt", "--in", "text.txt", "--out", "./text.txt"},
              {"--out: would write ./text.txt over --in text.txt"});
  refuse_over("vocab.txt",
              {"data", "tokenize", "--tokenizer", "vocab.txt", "--in", "text.txt", "--out", "vocab.txt"},
              {"--out: would write vocab.txt over --tokenizer vocab.txt"});
  fs::create_hard_link(path() / "text.txt", path() / "c.idx");
  refuse_over("text.txt", {"data", "build", "--tokenizer", "vocab.txt", "--out", "c", "text.txt"},
              {"--out: would write c.idx over FILE text.txt"});
  fs::create_directory(path() / "words");
  folder.write("words/merges.txt", "some words and some more words\n");
  refuse_over("words/merges.txt",
              {"data", "bpe", "--out", "words", "--vocab-size", "258", "words/merges.txt"},
              {"--out: would write words/merges.txt over FILE words/merges.txt"});
  fs::create_hard_link(path() / "text.txt", path() / "corpus_training_0.hdf5");
  refuse_over(
      "text.txt",
      {"data", "bert", "--out", ".", "--tokenizer", "vocab.txt", "--shards", "1", "--seq", "16", "text.txt"},
      {"--out: would write ./corpus_training_0.hdf5 over FILE text.txt"});
  fs::create_hard_link(path() / "corpus.idx", path() / "doc_idx.npy");
  refuse_over("corpus.idx",
              {"data", "index", "--prefix", "corpus", "--seq", "4", "--samples", "2", "--split", "1,0,0",
               "--out", "."},
              {"--out: would write ./doc_idx.npy over --prefix corpus.idx"});
  refuse_over("run.yaml", {"plan", "run.yaml", "--graph", "run.yaml"},
              {"--graph: would write run.yaml over CONFIG run.yaml"});
  refuse_over("run.yaml", {"tune", "run.yaml", "--out", "run.yaml", "device=cuda"},
              {"--out: would write run.yaml over CONFIG run.yaml"});
  expect_refusal({"plan", "run.yaml", "--graph", "new", "--dot", "./new"},
                 {"--dot: would write ./new over --graph new"});
  EXPECT_FALSE(fs::exists(path() / "new"));
}

// It would be opened in their place.
TEST_F(OutputsTest, ATokenizerIsNotPutBesideAnother) {
  fs::create_directory(path() / "words");
  fs::copy(path() / "vocab.txt", path() / "words/vocab.txt");
  expect_refusal({"data", "bpe", "--out", "words", "--vocab-size", "258", "text.txt"},
                 {"--out: words/vocab.txt is there already", "instead of the new vocab.json"});
  EXPECT_EQ(names_in(path() / "words"), std::vector<std::string>{"vocab.txt"});
  for (int i = 0; i < 2; ++i)
    expect_success({"data", "bpe", "--out", "new", "--vocab-size", "258", "text.txt"});
}

TEST_F(OutputsTest, AReportLeavesTheRunsFilesAlone) {
  expect_success({"train", "run.yaml", "train.steps=4"});
  for (const std::string file : {"run/metrics.jsonl", "run/run.yaml", "run/step-00000004/manifest.json"})
    refuse_over(file, {"report", "run", "--out", file},
                {"--out: would write " + file, "a file of the run in run"});
  for (const char* file : {"run/report.html", "run/page.html", "run/new", "metrics.jsonl"})
    expect_success({"report", "run", "--out", file});
}

TEST_F(OutputsTest, APrefixEndsInAName) {
  for (const char* out : {"o2/", "text.txt/"})
    expect_refusal(
        {"data", "build", "--out", out, "--tokenizer", "vocab.txt", "text.txt"},
        {std::string("--out: found ") + out + ", expected a prefix of files, such as " + out + "corpus"});
  EXPECT_FALSE(fs::exists(path() / "o2"));
  expect_refusal({"data", "index", "--prefix", "data/", "--seq", "4", "--samples", "2", "--out", "maps"},
                 {"--prefix: found data/, expected a prefix of files"});
}

TEST_F(OutputsTest, AModelIsNotConvertedOntoAModel) {
  const std::string weights = bytes_of(path() / "model/model.safetensors");
  fs::create_symlink("model", path() / "link");
  for (const char* format : {"hf", "tessera"}) {
    for (const char* to : {"model", "model/", "./model", "link"})
      expect_refusal({"convert", "model", to, "--to", format}, {"is the model itself", "another folder"});
    for (const char* file : {"model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
      fs::create_directory(path() / "other");
      folder.write(std::string("other/") + file, "of another");
      expect_refusal({"convert", "model", "other", "--to", format},
                     {"other holds a model already", file, "expected another folder"});
      EXPECT_EQ(names_in(path() / "other"), std::vector<std::string>{file});
      fs::remove_all(path() / "other");
    }
  }
  EXPECT_TRUE(bytes_of(path() / "model/model.safetensors") == weights);
  EXPECT_FALSE(fs::exists(path() / "model/step-00000000"));
  fs::create_directory(path() / "empty");
  expect_success({"convert", "model", "empty"});
}

TEST_F(OutputsTest, NumbersThatAreNoneAreNotConverted) {
  for (const auto& [bytes, text] : {std::pair{std::string("\x00\x00\xc0\xff", 4), "is nan, expected"},
                                    {std::string("\x00\x00\x80\xff", 4), "is -inf, expected"}}) {
    spoil_first_weight(bytes);
    for (const char* format : {"hf", "tessera"}) {
      const ProgramResult result =
          expect_refusal({"convert", "model", "a/out", "--to", format}, {text, "a finite number: not saved"});
      EXPECT_EQ(result.err.find("optimizer.lr"), std::string::npos) << result.text();
      EXPECT_FALSE(fs::exists(path() / "a"));
    }
  }
}

// No file may grow at all, as on a disk that is full.
TEST_F(OutputsTest, AFullDiskLeavesNoFolders) {
  const std::vector<std::vector<std::string>> commands = {
      {"data", "blocks", "--out", "new/out", "--tokenizer", "vocab.txt", "--block", "5", "text.txt"},
      {"data", "build", "--out", "new/out/c", "--tokenizer", "vocab.txt", "text.txt"},
      {"data", "bpe", "--out", "new/out", "--vocab-size", "258", "text.txt"},
      {"data", "bert", "--out", "new/out", "--tokenizer", "vocab.txt", "--shards", "1", "--seq", "16",
       "text.txt"},
      {"data", "index", "--prefix", "corpus", "--split", "1,0,0", "--seq", "16", "--samples", "9", "--out",
       "new/out"},
      {"convert", "model", "new/out"},
      {"convert", "model", "new/out", "--to", "tessera"}};
  for (const std::vector<std::string>& arguments : commands) {
    // What the program says goes into a file, too, and is lost.
    Program program("tessera", arguments, path(), [] { limit(RLIMIT_FSIZE, 0); });
    const ProgramResult result = program.wait();
    SCOPED_TRACE(arguments[0] + " " + arguments[1]);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_FALSE(fs::exists(path() / "new"));
  }
}

}  // namespace
}  // namespace tessera
