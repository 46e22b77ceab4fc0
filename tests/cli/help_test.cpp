// What the program says when asked, and when the command line itself is wrong.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class HelpTest : public ProgramTestFolder {};

struct CommandHelp {
  std::vector<std::string> command;
  std::vector<std::string> options;
};

TEST_F(HelpTest, EveryCommandNamesItsOptions) {
  const std::vector<CommandHelp> commands = {
      {{}, {"train", "plan", "report", "data", "eval", "generate", "convert", "selftest", "tune"}},
      {{"train"}, {"CONFIG", "--resume", "key=value", "train.steps", "optimizer.lr", "recompute", "threads"}},
      {{"plan"},
       {"CONFIG", "--collectives", "--timeline", "--trace", "--stage", "--shrink", "--graph", "--dot",
        "--steps", "key=value"}},
      {{"report"}, {"RUN_DIR", "--out"}},
      {{"data"}, {"bert", "blocks", "bpe", "build", "index", "tokenize"}},
      {{"data", "bert"},
       {"FILE", "--out", "--tokenizer", "--shards", "--name", "--seq", "--predictions", "--mask-probability",
        "--short-probability", "--copies", "--seed"}},
      {{"data", "blocks"},
       {"FILE", "--out", "--tokenizer", "--block", "--key", "--drop-newlines", "--threads"}},
      {{"data", "index"}, {"--prefix", "--split", "--part", "--seq", "--samples", "--seed", "--out"}},
      {{"data", "bpe"}, {"--out", "--vocab-size", "FILE"}},
      {{"data", "build"}, {"--out", "--tokenizer", "--documents", "--key", "--threads", "FILE"}},
      {{"data", "tokenize"}, {"--tokenizer", "--in", "--out"}},
      {{"eval"}, {"MODEL", "--data", "--seq-len", "--batch", "--batches", "key=value"}},
      {{"generate"},
       {"MODEL", "--prompt", "--tokens", "--temperature", "--top-k", "--top-p", "--seed", "--tokenizer"}},
      {{"convert"}, {"FROM", "TO", "--to"}},
      {{"selftest"},
       {"--device", "--seed", "--op", "--pairs", "--small", "--brief", "--large", "--no-cudnn", "--quiet"}},
      {{"tune"}, {"CONFIG", "--out", "key=value"}},
  };
  for (const CommandHelp& help : commands) {
    for (const char* flag : {"--help", "-h"}) {
      std::vector<std::string> arguments = help.command;
      arguments.push_back(flag);
      const ProgramResult result = expect_success(arguments);
      EXPECT_EQ(result.err, "");
      for (const std::string& option : help.options)
        EXPECT_NE(result.out.find(option), std::string::npos) << option << "\n" << result.text();
    }
  }
}

TEST_F(HelpTest, WithoutACommandTheHelpIsARefusal) {
  const std::vector<std::vector<std::string>> incomplete = {{}, {"data"}};
  for (const std::vector<std::string>& arguments : incomplete)
    EXPECT_EQ(expect_refusal(arguments, {"COMMAND", "Commands (each with --help)"}, 2).out, "");
}

TEST_F(HelpTest, GoldenCheckHasHelpToo) {
  const ProgramResult result = run_program("golden_check", {"--help"}, path());
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"DIR", "key=value", "precision", "train.micro_batch"})
    EXPECT_NE(result.out.find(part), std::string::npos);
  // The keys that it takes are those that it names.
  const std::string refusal = run_program("golden_check", {".", "model.layers=1"}, path()).err;
  const std::size_t keys = refusal.find("keys of "), end = refusal.find('\n');
  ASSERT_LT(keys, end) << refusal;
  EXPECT_NE(result.out.find(refusal.substr(keys, end - keys)), std::string::npos) << refusal;
}

TEST_F(HelpTest, UnknownCommandsGetASuggestion) {
  expect_refusal({"trian"}, {"unknown command 'trian'", "did you mean 'train'", "generate"}, 2);
  expect_refusal({"data", "biuld"}, {"tessera data: unknown command 'biuld'", "did you mean 'build'"}, 2);
  expect_refusal({"xyzzy"}, {"unknown command 'xyzzy'", "Commands"}, 2);
}

TEST_F(HelpTest, UnknownFlagsGetASuggestion) {
  expect_refusal({"train", "run.yaml", "--resum"}, {"unknown option '--resum'", "did you mean '--resume'"},
                 2);
  expect_refusal({"generate", "run", "--temprature", "1"}, {"did you mean '--temperature'"}, 2);
  expect_refusal({"data", "build", "--tokeniser", "x"}, {"did you mean '--tokenizer'"}, 2);
  expect_refusal({"train"}, {"CONFIG is missing"}, 2);
  expect_refusal({"convert", "run"}, {"TO is missing"}, 2);
  expect_refusal({"convert", "run", "a", "b"}, {"unexpected argument 'b'"}, 2);
}

TEST_F(HelpTest, MissingOptionsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> missing = {
      {"bert", "FILE, --out and --tokenizer"},     {"blocks", "FILE, --out and --tokenizer"},
      {"build", "FILE, --out and --tokenizer"},    {"bpe", "FILE and --out"},
      {"tokenize", "--tokenizer, --in and --out"}, {"index", "--prefix, --seq, --samples and --out"}};
  for (const auto& [command, names] : missing) {
    expect_refusal({"data", command}, {"tessera data " + command + ": " + names + " are missing; see --help"},
                   2);
  }
  expect_refusal({"data", "index", "--prefix", "corpus", "--seq", "8", "--out", "maps"},
                 {"tessera data index: --samples is missing; see --help"}, 2);
  expect_refusal({"data", "index", "--prefix", "corpus", "--seq", "0", "--samples", "4", "--out", "maps"},
                 {"--seq: found 0, expected at least 1"});
  const ProgramResult help = expect_success({"data", "index", "--help"});
  EXPECT_NE(help.out.find("tokens of a sample (required)\n"), std::string::npos) << help.text();
}

TEST_F(HelpTest, WrongNumbersAreRefused) {
  expect_refusal({"generate", "run", "--tokens", "many"}, {"--tokens", "found 'many', expected an integer"},
                 2);
  expect_refusal({"generate", "run", "--tokens", "0"}, {"--tokens: found 0, expected at least 1"});
  expect_refusal({"generate", "run", "--temperature", "-1"}, {"--temperature: found -1, expected 0 or more"});
  expect_refusal({"generate", "run", "--temperature", "nan"}, {"--temperature: found nan"});
  expect_refusal({"generate", "run", "--top-k", "-1"}, {"--top-k: found -1, expected 0 or more"});
  expect_refusal({"generate", "run", "--top-p", "0"}, {"--top-p: found 0, expected more than 0"});
  expect_refusal({"eval", "run", "--batch", "-3"}, {"--batch: found -3, expected at least 1"});
  expect_refusal({"eval", "run", "--seq-len", "-3"}, {"--seq-len: found -3, expected at least 1"});
  expect_refusal({"eval", "run", "--batch", "0"}, {"--batch: found 0, expected at least 1"});
  expect_refusal({"eval", "run", "--seq-len", "0"}, {"--seq-len: found 0, expected at least 1"});
  for (const char* command : {"train", "plan"})
    expect_refusal({command, "run.yaml", "--shrink", "0"}, {"--shrink: found 0, expected 1 to 1"});
  expect_refusal({"eval", "run", "--batches", "-3"}, {"--batches: found -3, expected 0 or more"});
  expect_refusal({"data", "bpe", "--out", "t", "--vocab-size", "5000000000", "run.yaml"},
                 {"--vocab-size: found 5000000000"});
  expect_refusal({"data", "build", "--out", "c", "--tokenizer", "t", "--threads", "-1", "run.yaml"},
                 {"--threads: found -1"});
  EXPECT_FALSE(std::filesystem::exists(path() / "t"));
}

}  // namespace
}  // namespace tessera
