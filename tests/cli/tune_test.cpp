// `tessera tune` where there is nothing to tune; what it finds on a GPU is tested in backend_cuda.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class TuneCommandTest : public ProgramTestFolder {
 protected:
  // Until the GPU is missing, which is asked for behind the config and the model: hidden where there is one.
  void expect_only_the_gpu_is_missing(std::vector<std::string> keys) const {
    keys.insert(keys.begin(), {"tune", "run.yaml", "--out", "x.tuning", "device=cuda"});
    const ProgramResult result =
        Program("tessera", keys, path(), [] { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); }).wait();
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.err.find("device: cuda, but "), std::string::npos) << result.text();
    EXPECT_FALSE(std::filesystem::exists(path() / "x.tuning"));
    EXPECT_EQ(partial_files(path()), std::vector<std::string>{});
  }
};

TEST_F(TuneCommandTest, IsRefusedBeforeAStepIsRun) {
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning"}, {"device: found cpu, expected cuda"});
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning", "device=null"},
                 {"device: found null, expected cuda"});
  expect_refusal({"tune", "run.yaml", "device=cuda"}, {"tessera tune: --out is missing; see --help"}, 2);
  expect_refusal({"tune", "run.yaml", "--out", "x.tuning", "device=cuda", "parallel.dp=3"}, {"global_batch"});
  EXPECT_FALSE(std::filesystem::exists(path() / "x.tuning"));
}

// As `tessera train` takes it.
TEST_F(TuneCommandTest, TakesTheVocabularyOfTheTokenizer) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  expect_only_the_gpu_is_missing({"model.vocab_size=0", "data.tokenizer=vocab.txt"});
}

// The file of an earlier search may be of another card or not there yet: that is why one searches.
TEST_F(TuneCommandTest, NeedsNoEarlierSearch) {
  expect_only_the_gpu_is_missing({"cuda.tuning=earlier.tuning"});
}

}  // namespace
}  // namespace tessera
