#include "tessera/backend/cuda/gemm_choices.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

const std::string kMachine = choices_machine("A GPU", 130100);

GemmChoices two_choices() {
  GemmChoices choices;
  choices.algorithms[{4096, 11008, 4096, 1, 0}] = {{1, 2, 3, 0xfedcba9876543210u, 5, 6, 7, 8}};
  choices.algorithms[{1, 2, 3}] = {{9}};
  return choices;
}

std::string message_of(const std::string& text, const std::string& machine = kMachine) {
  try {
    parse_choices(text, "x.tuning", machine);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(GemmChoices, AreReadAsTheyWereWritten) {
  const GemmChoices before = two_choices();
  const GemmChoices after = parse_choices(choices_text(before, kMachine), "x.tuning", kMachine);
  ASSERT_EQ(after.algorithms.size(), 2u);
  for (const auto& [key, algorithm] : before.algorithms) {
    ASSERT_TRUE(after.algorithms.contains(key));
    EXPECT_TRUE(std::ranges::equal(after.algorithms.at(key).data, algorithm.data));
  }
}

TEST(GemmChoices, OfAnotherMachineAreRefused) {
  EXPECT_EQ(message_of(choices_text(two_choices(), kMachine), choices_machine("A GPU", 130200)),
            "x.tuning: was made on A GPU, cublasLt 130100, but this is A GPU, cublasLt 130200: run `tessera "
            "tune` here");
}

TEST(GemmChoices, OtherFilesAndDamagedOnesAreRefused) {
  EXPECT_EQ(message_of("{\"a\": 1}"), "x.tuning: is no table of products made by `tessera tune`");
  const std::string text = choices_text(two_choices(), kMachine);
  for (const std::size_t lost : {2, 20}) {  // in the middle of a number, and of the line
    EXPECT_EQ(message_of(text.substr(0, text.size() - lost)),
              "x.tuning:3: expected 18 decimal and 8 hexadecimal numbers of 16 digits");
  }
  EXPECT_EQ(message_of(text + "1 2 three\n"),
            "x.tuning:4: expected 18 decimal and 8 hexadecimal numbers of 16 digits");
}

}  // namespace
}  // namespace tessera::cuda
