// `tessera tune` where there is nothing to tune; what it finds on a GPU is tested in backend_cuda.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class TuneCommandTest : public ProgramTestFolder {};

TEST_F(TuneCommandTest, IsRefusedBeforeAStepIsRun) {
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning"}, {"device: found cpu, expected cuda"});
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning", "device=null"},
                 {"device: found null, expected cuda"});
  expect_refusal({"tune", "run.yaml", "device=cuda"}, {"tessera tune: --out is missing; see --help"}, 2);
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning", "device=cuda", "parallel.dp=3"}, {"global_batch"});
  EXPECT_FALSE(std::filesystem::exists(path() / "x.tuning"));
}

// As `tessera train` takes it; the folder that is missing ends it on machines with a GPU.
TEST_F(TuneCommandTest, TakesTheVocabularyOfTheTokenizer) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  const ProgramResult result = expect_refusal({"tune", "run.yaml", "--out", "none/x.tuning", "device=cuda",
                                               "model.vocab_size=0", "data.tokenizer=vocab.txt"},
                                              {});
  EXPECT_EQ(result.err.find("vocab_size"), std::string::npos) << result.text();
}

// The file of an earlier search may be of another card or not there yet: that is why one searches.
TEST_F(TuneCommandTest, NeedsNoEarlierSearch) {
  const ProgramResult result = expect_refusal(
      {"tune", "run.yaml", "--out", "none/x.tuning", "device=cuda", "cuda.tuning=earlier.tuning"}, {});
  EXPECT_EQ(result.err.find("earlier.tuning"), std::string::npos) << result.text();
}

}  // namespace
}  // namespace tessera
