// Cases of two nodes, on devices that run them as one: right, and wrong in ways that the self test must find.
// The CPU, which runs them one after the other, is in run_case_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "selftest/wrong_device.h"
#include "tessera/selftest/run_case.h"

namespace tessera {
namespace {

constexpr CaseOptions kFused{.expects_fused = true};

// The first of the pair's cases in which the value between the two is shared or not.
OpCase pair_of(const std::string& ops, bool shared) {
  for (OpCase& op_case : op_cases()) {
    if (op_case.next && case_ops(op_case) == ops && op_case.next->shared == shared) return std::move(op_case);
  }
  fail("no case of {}", ops);
}

CaseResult run_pair(const OpCase& op_case, WrongDevice::PairMistake mistake) {
  SelftestDevices devices{{make_cpu(), std::make_unique<WrongDevice>(std::move(mistake))}, nullptr};
  return run_case(op_case, devices, kFused);
}

void spoil_bf16(const TensorView& tensor) {
  tensor.as<Bf16>()[7] = Bf16(100.0f);
}

TEST(PairCasesTest, AreThoseThatDevicesFuse) {
  std::set<std::string> pairs;
  for (const OpCase& op_case : op_cases()) {
    if (op_case.next) pairs.insert(case_ops(op_case));
  }
  const std::set<std::string> wanted = {
      "linear+gelu",       "linear_grad_input+gelu_grad", "add+rms_norm",       "add+layer_norm",
      "rms_norm_grad+add", "layer_norm_grad+add",         "attention_grad+rope"};
  EXPECT_EQ(pairs, wanted);
}

TEST(PairCasesTest, ARightDevicePasses) {
  for (const auto& [ops, shared] : {std::pair{"linear+gelu", true},
                                    {"linear+gelu", false},
                                    {"attention_grad+rope", false},
                                    {"layer_norm_grad+add", false}}) {
    const OpCase op_case = pair_of(ops, shared);
    const CaseResult result = run_pair(op_case, [](const KernelCall&, const KernelCall&) {});
    EXPECT_TRUE(result.passed(op_case)) << case_name(op_case) << ": " << result.problem;
    EXPECT_EQ(result.error, 0);
  }
}

TEST(PairCasesTest, ADeviceThatDoesNotFuseFailsWhereItShould) {
  const OpCase op_case = pair_of("add+rms_norm", true);
  SelftestDevices devices{{make_cpu(), make_cpu()}, nullptr};
  EXPECT_EQ(run_case(op_case, devices, kFused).problem, "did not run as one");
  EXPECT_TRUE(run_case(op_case, devices, {}).passed(op_case));
}

// As a plan lays them: the second's output lies on the value between the two, unless others read that.
TEST(PairCasesTest, OperandsLieWhereAPlanPutsThem) {
  const auto places = [](const OpCase& op_case) {
    std::set<bool> in_place;
    run_pair(op_case, [&](const KernelCall& first, const KernelCall& second) {
      EXPECT_EQ(second.inputs[op_case.next->reads_at].data, first.outputs[0].data);
      for (const TensorView& input : first.inputs) EXPECT_NE(input.data, first.outputs[0].data);
      in_place.insert(second.outputs[0].data == first.outputs[0].data);
    });
    return in_place;
  };
  EXPECT_EQ(places(pair_of("linear+gelu", true)), std::set<bool>{false});
  EXPECT_EQ(places(pair_of("linear+gelu", false)), (std::set<bool>{false, true}));
  EXPECT_EQ(places(pair_of("attention_grad+rope", false)), (std::set<bool>{false, true}));
  EXPECT_EQ(places(pair_of("layer_norm_grad+add", false)), (std::set<bool>{false, true}));
}

TEST(PairCasesTest, AWrongElementIsAnError) {
  const OpCase turned = pair_of("attention_grad+rope", false);
  const auto spoil = [](const KernelCall&, const KernelCall& second) { spoil_bf16(second.outputs[0]); };
  EXPECT_GT(run_pair(turned, spoil).error, turned.bound);
  const auto spoil_in_place = [](const KernelCall& first, const KernelCall& second) {
    if (first.outputs[0].data == second.outputs[0].data) spoil_bf16(second.outputs[0]);
  };
  EXPECT_GT(run_pair(turned, spoil_in_place).error, turned.bound);
}

TEST(PairCasesTest, WhatTheFirstLeavesBehindIsComparedWhereItIsRead) {
  const auto spoil_first = [](const KernelCall& first, const KernelCall& second) {
    if (first.outputs[0].data != second.outputs[0].data) spoil_bf16(first.outputs[0]);
  };
  const OpCase kept = pair_of("linear+gelu", true), used_up = pair_of("linear+gelu", false);
  EXPECT_GT(run_pair(kept, spoil_first).error, kept.bound);
  EXPECT_TRUE(run_pair(used_up, spoil_first).passed(used_up));
  const OpCase norm = pair_of("rms_norm_grad+add", false);
  const auto spoil_sums = [](const KernelCall& first, const KernelCall&) {
    first.outputs[1].as<float>()[3] += 100;
  };
  EXPECT_GT(run_pair(norm, spoil_sums).error, norm.bound);
}

TEST(PairCasesTest, SumsThatThePairDoesNotStartAreFound) {
  const OpCase norm = pair_of("layer_norm_grad+add", false);
  const auto add_old = [](const KernelCall& first, const KernelCall& second) {
    EXPECT_FALSE(second.starts_sums);
    if (first.starts_sums) first.outputs[2].as<float>()[3] = NAN;
  };
  EXPECT_FALSE(run_pair(norm, add_old).passed(norm));
}

TEST(PairCasesTest, StrayWritesAreFound) {
  const OpCase turned = pair_of("attention_grad+rope", false);
  const auto behind = [](const KernelCall&, const KernelCall& second) {
    static_cast<std::byte*>(second.outputs[0].data)[second.outputs[0].num_bytes()] = std::byte{1};
  };
  EXPECT_EQ(run_pair(turned, behind).problem, "wrote behind output 1");
  // The table, behind the four operands of the first.
  const auto change = [](const KernelCall&, const KernelCall& second) {
    second.inputs[1].as<float>()[0] += 1;
  };
  EXPECT_EQ(run_pair(turned, change).problem, "changed input 4");
}

TEST(PairCasesTest, OtherBitsInASecondRunAreFound) {
  const OpCase norm = pair_of("add+rms_norm", true);
  int runs = 0;
  const auto drift = [&runs](const KernelCall&, const KernelCall& second) {
    float& first = second.outputs[0].as<float>()[0];
    if (++runs == 2) first = std::nextafter(first, 10.0f);
  };
  EXPECT_EQ(run_pair(norm, drift).problem, "gave other bits in a second run");
}

}  // namespace
}  // namespace tessera
