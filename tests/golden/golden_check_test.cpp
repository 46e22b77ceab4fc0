// The golden models through the program: all within their bounds however the step is cut, and a
// reference that is wrong in one number is noticed.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "checkpoint/temporary_folder.h"
#include "cli/program.h"
#include "tessera/base/mapped_file.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/checkpoint/safetensors_header.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden";

// The lines' quantities that are gradients or final weights, in alphabetical order.
std::vector<std::string> tensors_compared(const std::string& printed) {
  std::vector<std::string> found;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("ok     grad ") && !line.starts_with("ok     final ")) continue;
    const std::string quantity = line.substr(7, line.rfind(" error ") - 7);
    found.push_back(quantity.substr(0, quantity.find_last_not_of(' ') + 1));
  }
  std::ranges::sort(found);
  return found;
}

// Those that a reference has. Biases on keys, which nothing but rounding moves, are compared by the whole
// norm; a tensor of nothing else has no line of its own (README.md).
std::vector<std::string> tensors_of_reference(const std::string& model, bool bf16) {
  std::vector<std::string> wanted;
  const SafetensorsReader reference(kGolden / model / "reference.safetensors");
  for (const std::string& tensor : reference.names()) {
    const bool gradient = tensor.starts_with("grad.");
    if (!gradient && !tensor.starts_with("final.")) continue;
    std::string name = tensor.substr(tensor.find('.') + 1);
    if (name == "lm_head.weight" && model.starts_with("gpt-neox")) name = "embed_out.weight";
    const bool keys_alone = name.ends_with("self.key.bias") || (bf16 && name.ends_with("k_proj.bias"));
    const bool keys = keys_alone || name.ends_with("c_attn.bias") || name.ends_with("query_key_value.bias");
    if (gradient && keys) wanted.push_back("grad " + name + " (keys, of the whole norm)");
    if (!keys_alone) wanted.push_back((gradient ? "grad " : "final ") + name);
  }
  std::ranges::sort(wanted);
  return wanted;
}

class GoldenModelTest : public testing::TestWithParam<const char*> {
 protected:
  // What the program printed.
  std::string expect_all_within_bounds(const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments = {(kGolden / GetParam()).string()};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    const ProgramResult result = run_program("golden_check", arguments, scratch.path());
    EXPECT_EQ(result.exit_code, 0) << result.text();
    EXPECT_NE(result.out.find(": all within bounds\n"), std::string::npos) << result.text();
    for (const char* quantity : {"ok     logits ", "ok     loss of step 0 ", "ok     loss of steps 1 to 19 ",
                                 "ok     gradient norm of steps 0 to 19 "})
      EXPECT_NE(result.out.find(quantity), std::string::npos) << quantity << "\n" << result.text();
    const bool bf16 = std::ranges::count(overrides, "precision=bf16") > 0;
    EXPECT_EQ(tensors_compared(result.out), tensors_of_reference(GetParam(), bf16));
    return result.out;
  }

  TemporaryFolder scratch;
};
INSTANTIATE_TEST_SUITE_P(Models, GoldenModelTest,
                         testing::Values("llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf", "gpt-neox",
                                         "gpt-neox-seqres", "bert"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(GoldenModelTest, TheSameDigitsOnAnyNumberOfThreads) {
  EXPECT_EQ(expect_all_within_bounds({"threads=1"}), expect_all_within_bounds({"threads=3"}));
}
TEST_P(GoldenModelTest, Recompute) {
  expect_all_within_bounds({"recompute=selective"});
}
TEST_P(GoldenModelTest, MicroBatchesOfOne) {
  expect_all_within_bounds({"train.micro_batch=1"});
}
TEST_P(GoldenModelTest, MicroBatchesOfTwo) {
  expect_all_within_bounds({"train.micro_batch=2", "recompute=selective"});
}
TEST_P(GoldenModelTest, Bf16) {
  expect_all_within_bounds({"precision=bf16", "train.micro_batch=2"});
}
TEST_P(GoldenModelTest, RoundedGradients) {
  expect_all_within_bounds({"precision=bf16", "optimizer.gradient_dtype=bf16"});
}
TEST_P(GoldenModelTest, Bf16StateStochasticallyRounded) {
  expect_all_within_bounds({"precision=bf16", "optimizer.state_dtype=bf16"});
}

// A copy of the llama folder to spoil.
class SpoiledGoldenTest : public testing::Test {
 protected:
  SpoiledGoldenTest() { fs::copy(kGolden / "llama", folder.path()); }

  // Where element `at` of a tensor lies in its file, and the file's bytes.
  std::size_t place_of(const std::string& bytes, const std::string& tensor, std::size_t at) const {
    const SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(bytes)), "copy");
    for (const SafetensorsEntry& entry : header.entries) {
      if (entry.name != tensor) continue;
      const auto element_bytes =
          static_cast<std::size_t>((entry.end - entry.begin) / entry.shape.num_elems());
      return static_cast<std::size_t>(header.header_bytes + entry.begin) + at * element_bytes;
    }
    ADD_FAILURE() << "no tensor " << tensor;
    return 0;
  }

  template <class Number>
  void change(const char* file, const std::string& tensor, std::size_t at, Number (*f)(Number)) const {
    std::string bytes = bytes_of(folder.path() / file);
    char* const place = bytes.data() + place_of(bytes, tensor, at);
    Number value;
    std::memcpy(&value, place, sizeof value);
    value = f(value);
    std::memcpy(place, &value, sizeof value);
    folder.write(file, bytes);
  }

  ProgramResult check(std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.begin(), folder.path().string());
    return run_program("golden_check", overrides, folder.path());
  }

  // The program says so, names `quantity` and nothing else.
  void expect_failed(const std::string& quantity, const std::vector<std::string>& overrides = {}) const {
    const ProgramResult result = check(overrides);
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.out.find("FAILED " + quantity), std::string::npos) << result.text();
    EXPECT_NE(result.out.find(": 1 quantities out of bounds\n"), std::string::npos) << result.text();
  }

  void expect_refused(const ProgramResult& result, const std::vector<std::string>& parts) const {
    EXPECT_EQ(result.exit_code, 1) << result.text();
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << "lacks " << part << "\n" << result.text();
  }

  TemporaryFolder folder;
};

TEST_F(SpoiledGoldenTest, KeysThatTheFolderDecides) {
  for (const std::string key : {"train.steps", "optimizer.lr", "model.layers", "train.seq_len"})
    expect_refused(check({key + "=3"}), {key + " does not count here, expected keys of device, threads"});
  expect_refused(check({"train.stps=3"}), {"unknown key 'train.stps'", "did you mean 'train.steps'"});
}

TEST_F(SpoiledGoldenTest, KeysThatTheLayoutsDecide) {
  for (const std::string key : {"parallel.tp=4", "recompute=full", "train.steps=3"}) {
    const ProgramResult result =
        run_program("golden_layouts", {"--covering", key, folder.path().string()}, folder.path());
    expect_refused(result, {"golden_layouts: " + key.substr(0, key.find('='))});
  }
}

TEST_F(SpoiledGoldenTest, OneLogit) {
  change<float>("reference.safetensors", "logits", 100, [](float x) { return x + 0.1f; });
  expect_failed("logits");
}

TEST_F(SpoiledGoldenTest, OneGradient) {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  change<float>("reference.safetensors", "grad." + name, 7, [](float x) { return x + 0.01f; });
  expect_failed("grad " + name);
}

// bf16 has bounds of its own.
TEST_F(SpoiledGoldenTest, OneLogitInBf16) {
  change<float>("reference.safetensors", "logits", 100, [](float x) { return x + 2; });
  expect_failed("logits", {"precision=bf16"});
}

TEST_F(SpoiledGoldenTest, OneGradientInBf16) {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  change<float>("reference.safetensors", "grad." + name, 7, [](float x) { return x + 0.1f; });
  expect_failed("grad " + name, {"precision=bf16"});
}

TEST_F(SpoiledGoldenTest, OneLossInBf16) {
  change<double>("reference.safetensors", "loss", 0, [](double x) { return 1.01 * x; });
  expect_failed("loss of step 0", {"precision=bf16"});
}

TEST_F(SpoiledGoldenTest, OneLaterLossInBf16) {
  change<double>("reference.safetensors", "loss", 9, [](double x) { return 1.1 * x; });
  expect_failed("loss of steps 1 to 19", {"precision=bf16"});
}

TEST_F(SpoiledGoldenTest, OneFinalWeightInBf16) {
  const std::string name = "model.norm.weight";
  change<float>("reference.safetensors", "final." + name, 3, [](float x) { return x + 0.5f; });
  expect_failed("final " + name, {"precision=bf16"});
}

TEST_F(SpoiledGoldenTest, OneFinalWeight) {
  const std::string name = "model.norm.weight";
  change<float>("reference.safetensors", "final." + name, 3, [](float x) { return x + 0.5f; });
  expect_failed("final " + name);
}

TEST_F(SpoiledGoldenTest, OneGradientNorm) {
  change<double>("reference.safetensors", "grad_norm", 4, [](double x) { return 1.01 * x; });
  expect_failed("gradient norm of steps 0 to 19");
}

TEST_F(SpoiledGoldenTest, OneGradientThatIsNotANumber) {
  change<float>("reference.safetensors", "grad.lm_head.weight", 0, [](float) { return std::nanf(""); });
  expect_failed("grad lm_head.weight");
}

TEST_F(SpoiledGoldenTest, OneWeight) {
  change<float>("model.safetensors", "model.layers.0.self_attn.q_proj.weight", 0,
                [](float x) { return x + 0.1f; });
  const ProgramResult result = check();
  EXPECT_EQ(result.exit_code, 1) << result.text();
  for (const char* quantity : {"FAILED logits", "FAILED loss of step 0", "FAILED grad "})
    EXPECT_NE(result.out.find(quantity), std::string::npos) << quantity << "\n" << result.text();
}

TEST_F(SpoiledGoldenTest, AnotherLearningRate) {
  std::string json = bytes_of(folder.path() / "training.json");
  json.replace(json.find("0.002"), 5, "0.004");
  folder.write("training.json", json);
  const ProgramResult result = check();
  EXPECT_EQ(result.exit_code, 1) << result.text();
  EXPECT_NE(result.out.find("ok     loss of step 0"), std::string::npos) << result.text();
  EXPECT_NE(result.out.find("FAILED loss of steps 1 to 19"), std::string::npos) << result.text();
}

TEST_F(SpoiledGoldenTest, MissingAndBrokenFilesAreNamed) {
  const std::string reference = bytes_of(folder.path() / "reference.safetensors");
  folder.write("reference.safetensors", reference.substr(0, reference.size() / 2));
  expect_refused(check(), {"reference.safetensors"});
  fs::remove(folder.path() / "reference.safetensors");
  expect_refused(check(), {"reference.safetensors", "No such file"});
  fs::copy(kGolden / "gpt2/reference.safetensors", folder.path());
  expect_refused(check(), {"reference.safetensors", "grad.model.embed_tokens.weight"});
  folder.write("training.json", "{}");
  expect_refused(check(), {"training.json", "lr"});
}

TEST_F(SpoiledGoldenTest, AShortReferenceIsRefused) {
  std::vector<float> few(3);
  write_safetensors(folder.path() / "reference.safetensors",
                    std::vector<NamedTensor>{{"logits", {few.data(), DType::f32, {3}}}});
  expect_refused(check(), {"reference.safetensors", "logits", "found 3 numbers"});
}

TEST_F(SpoiledGoldenTest, IdsBeyondTheVocabularyAreRefused) {
  change<std::int32_t>("batches.safetensors", "input_ids", 5, [](std::int32_t) { return 128; });
  expect_refused(check(), {"batches.safetensors", "number 5 of input_ids is 128", "128 ids"});
}

TEST_F(SpoiledGoldenTest, TokenTypesThatTheModelDoesNotHaveAreRefused) {
  fs::remove_all(folder.path());
  fs::copy(kGolden / "bert", folder.path());
  change<std::int32_t>("batches.safetensors", "token_type_ids", 7, [](std::int32_t) { return 2; });
  expect_refused(check(), {"batches.safetensors", "number 7 of token_type_ids is 2", "2 ids"});
}

TEST_F(SpoiledGoldenTest, LabelsThatTheModelDoesNotHaveAreRefused) {
  const auto spoil = [&](const char* name, int at, std::int32_t (*label)(std::int32_t)) {
    fs::remove_all(folder.path());
    fs::copy(kGolden / "bert", folder.path());
    change<std::int32_t>("batches.safetensors", name, at, label);
  };
  spoil("labels", 3, [](std::int32_t) { return 1'000'000'000; });
  expect_refused(check(), {"batches.safetensors", "number 3 of labels is 1000000000", "128 ids"});
  spoil("labels", 4, [](std::int32_t) { return -5; });
  expect_refused(check(), {"batches.safetensors", "number 4 of labels is -5"});
  spoil("next_sentence_label", 1, [](std::int32_t) { return 2; });
  expect_refused(check(), {"batches.safetensors", "number 1 of next_sentence_label is 2", "2 ids"});
}

TEST_F(SpoiledGoldenTest, WrongKeysAreRefused) {
  expect_refused(check({"train.micro_batch=3"}), {"train.micro_batch = 3", "batches.safetensors"});
  expect_refused(check({"device=null"}), {"device"});
  expect_refused(check({"precison=bf16"}), {"unknown key 'precison'", "did you mean 'precision'"});
}

}  // namespace
}  // namespace tessera
