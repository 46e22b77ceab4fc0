// `tessera selftest` as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class SelftestCommandTest : public ProgramTestFolder {};

TEST_F(SelftestCommandTest, TheCpuPassesAgainstItself) {
  const ProgramResult result = expect_success({"selftest", "--device", "cpu", "--op", "clip_factor"});
  EXPECT_NE(result.out.find("ok     clip_factor"), std::string::npos) << result.text();
  EXPECT_NE(result.out.find("selftest on cpu: 3 cases passed, 0 failed"), std::string::npos) << result.text();
}

TEST_F(SelftestCommandTest, PairsAreCasesOfTheirFirstOp) {
  const std::string pair = "ok     linear_grad_input+gelu_grad", alone = "ok     linear_grad_input bf16";
  const auto run = [&](std::vector<std::string> which) {
    which.insert(which.begin(), {"selftest", "--device", "cpu", "--brief", "--small"});
    return expect_success(which).out;
  };
  const std::string both = run({"--op", "linear_grad_input"});
  EXPECT_NE(both.find(pair), std::string::npos) << both;
  EXPECT_NE(both.find(alone), std::string::npos) << both;
  for (const std::vector<std::string>& which :
       {std::vector<std::string>{"--op", "linear_grad_input", "--pairs"},
        {"--op", "linear_grad_input+gelu_grad"}}) {
    const std::string pairs = run(which);
    EXPECT_NE(pairs.find(pair), std::string::npos) << pairs;
    EXPECT_EQ(pairs.find(alone), std::string::npos) << pairs;
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(SelftestCommandTest, ListsCasesAsTheyAreMatched) {
  const std::vector<std::string> all = lines_of(expect_success({"selftest", "--list", "--op", "rope"}).out);
  ASSERT_GT(all.size(), 2U);
  for (const std::string& name : all) {
    const std::string run = expect_success({"selftest", "--list", "--op", "rope", "--match", name}).out;
    EXPECT_NE(("\n" + run).find("\n" + name + "\n"), std::string::npos) << name << "\n" << run;
  }
  const std::string one = expect_success({"selftest", "--device", "cpu", "--match", all[0] + ", back"}).out;
  EXPECT_NE(one.find("ok     " + all[0] + ", back"), std::string::npos) << one;
  EXPECT_NE(one.find("selftest on cpu: 1 cases passed, 0 failed"), std::string::npos) << one;
}

// Every case is in one of them.
TEST_F(SelftestCommandTest, SharesAreTheWhole) {
  const std::vector<std::string> which{"selftest", "--list", "--brief", "--op", "softmax_cross_entropy"};
  std::vector<std::string> all = lines_of(expect_success(which).out), of_shares;
  for (const std::string share : {"1/3", "2/3", "3/3"}) {
    std::vector<std::string> arguments = which;
    arguments.insert(arguments.end(), {"--share", share});
    for (const std::string& name : lines_of(expect_success(arguments).out)) of_shares.push_back(name);
  }
  std::ranges::sort(all);
  std::ranges::sort(of_shares);
  EXPECT_EQ(of_shares, all);
  for (const std::string share : {"0/3", "4/3", "1", "1/", "/3", "1/3x", "-1/3", "1/0", " 1/3"}) {
    expect_refusal({"selftest", "--list", "--share", share}, {"--share: found '" + share + "', expected K/N"},
                   1);
  }
  expect_refusal({"selftest", "--list", "--share", "1/100000"},
                 {"--share 1/100000: there are ", " cases only"}, 1);
}

// Together they are the whole of it.
TEST_F(SelftestCommandTest, EveryCaseIsBriefOrLarge) {
  const auto num_cases = [&](const std::vector<std::string>& which) {
    std::vector<std::string> arguments{"selftest", "--device", "cpu", "--op", "softmax"};
    arguments.insert(arguments.end(), which.begin(), which.end());
    const std::string out = expect_success(arguments).out;
    const std::size_t at = out.find("selftest on cpu: ");
    return at == std::string::npos ? 0 : std::stoi(out.substr(at + 17));
  };
  const int brief = num_cases({"--brief"}), large = num_cases({"--large"});
  EXPECT_GT(brief, 0);
  EXPECT_GT(large, 0);
  EXPECT_EQ(brief + large, num_cases({"--untimed"}));
  expect_refusal({"selftest", "--device", "cpu", "--brief", "--large"}, {"leave nothing"});
}

TEST_F(SelftestCommandTest, RanksAreTimedTogether) {
  const std::string out =
      expect_success({"selftest", "--device", "cpu", "--small", "--op", "all_reduce"}).out;
  std::istringstream lines(out);
  int timed = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" 4 ranks") != std::string::npos && line.find("GB/s") != std::string::npos) ++timed;
  EXPECT_GT(timed, 0) << out;
}

TEST_F(SelftestCommandTest, UnknownOpsAndDevicesAreRefused) {
  expect_refusal({"selftest", "--device", "cpu", "--op", "nosuch"}, {"--op nosuch", "no op of this name"}, 1);
  expect_refusal({"selftest", "--list", "--op", "nosuch"}, {"--op nosuch", "no op of this name"}, 1);
  expect_refusal({"selftest", "--device", "cpu", "--pairs", "--op", "rope"},
                 {"--op rope", "no pair of this name"}, 1);
  expect_refusal({"selftest", "--op", "rope", "--match", "nosuch"}, {"--match 'nosuch'", "leaves no case"},
                 1);
  for (const std::string device : {"tpu", "null"}) {
    expect_refusal({"selftest", "--device", device},
                   {"--device: found '" + device + "', expected cpu or cuda\n"}, 1);
  }
}

}  // namespace
}  // namespace tessera
