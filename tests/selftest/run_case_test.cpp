// The self test's own test: the CPU against itself, and devices that are wrong in ways it must find.
#include "tessera/selftest/run_case.h"

#include <gtest/gtest.h>

#include <set>

#include "selftest/wrong_device.h"
#include "tessera/selftest/compare_values.h"

namespace tessera {
namespace {

CaseResult run_against(const OpCase& op_case, WrongDevice::Mistake mistake) {
  SelftestDevices devices{{make_cpu(), std::make_unique<WrongDevice>(std::move(mistake))}, nullptr};
  return run_case(op_case, devices, {});
}

const OpCase& case_of(const std::vector<OpCase>& cases, Op op) {
  return *std::ranges::find(cases, op, &OpCase::op);
}

TEST(SelftestTest, EveryOpHasACase) {
  std::set<Op> ops;
  for (const OpCase& op_case : op_cases()) ops.insert(op_case.op);
  for (int op = 0; op < kNumOps; ++op) {
    EXPECT_TRUE(ops.contains(static_cast<Op>(op))) << op_name(static_cast<Op>(op)) << " has no case";
  }
}

TEST(SelftestTest, TheCpuAgreesWithItself) {
  SelftestDevices devices{{make_cpu(), make_cpu()}, [](int) { return DevicePair{make_cpu(), make_cpu()}; }};
  for (const OpCase& op_case : op_cases()) {
    std::int64_t elems = 0;
    for (const CaseInput& input : all_inputs(op_case)) elems += input.type.shape.num_elems();
    if (op_case.large || elems > 1 << 20) continue;  // `tessera selftest --device cpu` runs them, too
    const CaseResult result = run_case(op_case, devices, {});
    EXPECT_TRUE(result.passed(op_case)) << case_name(op_case) << ": " << result.problem;
    EXPECT_EQ(result.error, 0) << case_name(op_case);
  }
}

TEST(SelftestTest, AWrongElementIsAnError) {
  const std::vector<OpCase> cases = op_cases();
  const OpCase& softmax = case_of(cases, Op::softmax);
  const auto worsen = [](const KernelCall& call) { call.outputs[0].as<float>()[5] += 0.01f; };
  const CaseResult result = run_against(softmax, worsen);
  EXPECT_FALSE(result.passed(softmax));
  EXPECT_GT(result.error, softmax.bound);
  const auto spoil = [](const KernelCall& call) { call.outputs[0].as<float>().back() = NAN; };
  EXPECT_TRUE(std::isinf(run_against(softmax, spoil).error));
}

TEST(SelftestTest, AKernelThatDoesNotStartItsSumsIsFound) {
  const std::vector<OpCase> cases = op_cases();
  const OpCase& product = case_of(cases, Op::linear_grad_weight);
  const auto add_old = [](const KernelCall& call) {
    if (call.starts_sums) call.outputs[0].as<float>()[3] += 1;
  };
  EXPECT_FALSE(run_against(product, add_old).passed(product));
}

TEST(SelftestTest, StrayWritesAreFound) {
  const std::vector<OpCase> cases = op_cases();
  const OpCase& rope = case_of(cases, Op::rope);
  const auto behind = [](const KernelCall& call) {
    static_cast<std::byte*>(call.outputs[0].data)[call.outputs[0].num_bytes()] = std::byte{1};
  };
  EXPECT_EQ(run_against(rope, behind).problem, "wrote behind output 0");
  const auto change = [](const KernelCall& call) { call.inputs[1].as<float>()[0] += 1; };
  EXPECT_EQ(run_against(rope, change).problem, "changed input 1");
}

TEST(SelftestTest, OtherBitsInASecondRunAreFound) {
  const std::vector<OpCase> cases = op_cases();
  const OpCase& mul = case_of(cases, Op::mul);
  int runs = 0;
  const auto drift = [&runs](const KernelCall& call) {
    float& first = call.outputs[0].as<float>()[0];
    if (++runs == 2) first = std::nextafter(first, 10.0f);
  };
  const CaseResult result = run_against(mul, drift);
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(result.problem, "gave other bits in a second run");
}

TEST(CompareValuesTest, CountsAgainstTheElementOrTheRms) {
  const auto compare = [](std::vector<float> found, std::vector<float> wanted) {
    return compare_values(DType::f32, std::as_bytes(std::span(found)), std::as_bytes(std::span(wanted)));
  };
  EXPECT_DOUBLE_EQ(compare({3, 4}, {3, 4}), 0);
  EXPECT_DOUBLE_EQ(compare({0, 5}, {0, 4}), 0.25);
  EXPECT_DOUBLE_EQ(compare({1, 2, 2, 2}, {0, 2, 2, 2}), 1 / std::sqrt(3.0));  // small beside the others
  EXPECT_DOUBLE_EQ(compare({-INFINITY}, {-INFINITY}), 0);
  EXPECT_TRUE(std::isinf(compare({NAN, 1}, {0, 1})));
  EXPECT_TRUE(std::isinf(compare({1, 1}, {INFINITY, 1})));
  // So many that they are compared in pieces.
  const std::vector<float> ones(1'000'001, 1.0f);
  std::vector<float> others = ones;
  EXPECT_DOUBLE_EQ(compare(others, ones), 0);
  others.back() = 1.5f;
  EXPECT_DOUBLE_EQ(compare(others, ones), 0.5);
  others[300'000] = NAN;
  EXPECT_TRUE(std::isinf(compare(others, ones)));
}

}  // namespace
}  // namespace tessera
