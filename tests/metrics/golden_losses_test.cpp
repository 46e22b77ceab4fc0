#include "tessera/metrics/golden_losses.h"

#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

class GoldenLossesTest : public testing::Test {
 protected:
  GoldenLosses read(const std::string& text, double tolerance = 0.1) {
    folder.write("golden_steploss.txt", text);
    return GoldenLosses(folder.path() / "golden_steploss.txt", tolerance);
  }
  TemporaryFolder folder;
};

TEST_F(GoldenLossesTest, WithinTheToleranceOnBothSides) {
  const GoldenLosses golden = read("10.0\n8\n 5.5e0 \r\n");
  EXPECT_EQ(golden.size(), 3u);
  golden.check(1, 11);
  golden.check(1, 9);
  golden.check(2, 8.79);
  golden.check(3, 5.5);
  golden.check(4, 1000);  // beyond the file
  expect_error([&] { golden.check(1, 11.01); },
               {"step 1:", "loss 11.01", "0.1 times the golden loss 10", "golden_steploss.txt"});
  expect_error([&] { golden.check(2, 7.1); }, {"step 2:", "loss 7.1", "golden loss 8"});
  read("0.5").check(1, 0.5);  // no newline at the end
}

TEST_F(GoldenLossesTest, NoLossPassesThatIsNotANumber) {
  const GoldenLosses golden = read("1\n");
  expect_error([&] { golden.check(1, std::nan("")); }, {"step 1:", "nan"});
}

TEST_F(GoldenLossesTest, BadFilesAreRefusedByLine) {
  expect_error([&] { read("1.0\nfast\n"); }, {"golden_steploss.txt:2", "found 'fast'", "loss of step 2"});
  expect_error([&] { read("1.0\n\n2.0\n"); }, {"golden_steploss.txt:2", "found ''"});
  expect_error([&] { read("1.0 2.0\n"); }, {"golden_steploss.txt:1", "found '1.0 2.0'"});
  expect_error([&] { read("inf\n"); }, {"golden_steploss.txt:1", "found 'inf'"});
  expect_error([&] { read(""); }, {"golden_steploss.txt", "found no losses"});
  expect_error([&] { GoldenLosses(folder.path() / "none.txt", 0.1); }, {"none.txt"});
}

}  // namespace
}  // namespace tessera
