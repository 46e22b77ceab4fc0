// ProgramTestFolder: a folder with a small corpus and a run.yaml, and `tessera` run inside it; the fixture of
// the tests that drive the program.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/program.h"
#include "train/tiny_run.h"

namespace tessera {

inline const std::filesystem::path kGolden = std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/golden";

class ProgramTestFolder : public testing::Test {
 protected:
  ProgramTestFolder() {
    write_corpus(path() / "corpus", tiny_tokens(3000));
    folder.write("run.yaml", R"(
model: {type: llama, hidden_size: 32, layers: 2, heads: 4, ffn_size: 48, vocab_size: 61}
data: {prefix: corpus}
train: {steps: 12, seq_len: 16, global_batch: 4, micro_batch: 2, eval_every: 4, save_every: 4, keep_last: 0, out: run}
optimizer: {lr: 0.01}
schedule: {decay_steps: 12}
threads: 1
)");
  }

  const std::filesystem::path& path() const { return folder.path(); }

  ProgramResult tessera(const std::vector<std::string>& arguments) const {
    return run_program("tessera", arguments, path());
  }

  ProgramResult expect_success(const std::vector<std::string>& arguments) const {
    ProgramResult result = tessera(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.text();
    EXPECT_EQ(partial_files(path()), std::vector<std::string>{});
    return result;
  }

  // Refused in words: an exit code of 1 (or 2 for the command line itself), a message with all the parts,
  // nothing left unfinished. A crash would have another code.
  ProgramResult expect_refusal(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& parts, int exit_code = 1) const {
    ProgramResult result = tessera(arguments);
    std::string line = "tessera";
    for (const std::string& argument : arguments) line += " " + argument;
    EXPECT_EQ(result.exit_code, exit_code) << line << "\n" << result.text();
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << line << "\nlacks " << part << "\n"
                                                          << result.text();
    EXPECT_EQ(partial_files(path()), std::vector<std::string>{}) << line;
    return result;
  }

  // Same losses, same weights and moments, byte for byte.
  void expect_same_run(const std::string& first, const std::string& second,
                       const std::string& checkpoint = "step-00000012") const {
    std::vector<std::vector<double>> losses;
    for (const std::string& name : {first, second}) {
      losses.emplace_back();
      for (const StepReport& report : read_jsonl_log(path() / name / "metrics.jsonl"))
        losses.back().push_back(report.loss);
    }
    EXPECT_EQ(losses[0], losses[1]);
    for (const char* file : {"weights.safetensors", "optimizer.safetensors"}) {
      const std::string bytes = bytes_of(path() / first / checkpoint / file);
      EXPECT_FALSE(bytes.empty()) << file;
      EXPECT_TRUE(bytes == bytes_of(path() / second / checkpoint / file)) << file;
    }
  }

  TemporaryFolder folder;
};

}  // namespace tessera
