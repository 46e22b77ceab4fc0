// `tessera selftest` as a user runs it.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class SelftestCommandTest : public ProgramTestFolder {};

TEST_F(SelftestCommandTest, TheCpuPassesAgainstItself) {
  const ProgramResult result = expect_success({"selftest", "--device", "cpu", "--op", "clip_factor"});
  EXPECT_NE(result.out.find("ok     clip_factor"), std::string::npos) << result.text();
  EXPECT_NE(result.out.find("selftest on cpu: 3 cases passed, 0 failed"), std::string::npos) << result.text();
}

TEST_F(SelftestCommandTest, UnknownOpsAndDevicesAreRefused) {
  expect_refusal({"selftest", "--device", "cpu", "--op", "nosuch"}, {"--op nosuch", "no op of this name"}, 1);
  expect_refusal({"selftest", "--device", "tpu"}, {"device: found 'tpu'", "cpu | cuda | null"}, 1);
  expect_refusal({"selftest", "--device", "null"}, {"device", "null", "expected cpu"}, 1);
}

}  // namespace
}  // namespace tessera
