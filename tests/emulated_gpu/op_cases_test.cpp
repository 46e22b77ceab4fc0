// Every op and every pair that is one kernel, on the emulated GPU and on the CPU: the self test's cases, as
// far as they are small.
#include <gtest/gtest.h>

#include <set>

#include "emulated_gpu/stream.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/backend/cuda/cuda_device.h"
#include "tessera/selftest/link_check.h"
#include "tessera/selftest/run_case.h"

namespace tessera {
namespace {

// Attention on Hopper needs more for its thread blocks to take several pieces of work.
std::int64_t most_elems(const OpCase& op_case) {
  const bool on_hopper = (op_case.op == Op::attention || op_case.op == Op::attention_grad) &&
                         op_case.inputs[0].type.dtype == DType::bf16;
  return on_hopper ? 900'000 : 100'000;
}

DevicePair devices(int gpu) {
  return {make_cpu_device(1), make_cuda_device(gpu, make_cpu_device(1))};
}

std::int64_t elems_of(const OpCase& op_case) {
  std::int64_t elems = 0;
  for (const CaseInput& input : all_inputs(op_case)) elems += input.type.shape.num_elems();
  return elems;
}

void expect_passed(const OpCase& op_case, const CaseResult& result) {
  EXPECT_TRUE(result.passed(op_case)) << case_name(op_case) << ": error " << result.error << ", bound "
                                      << op_case.bound << " " << result.problem;
}

TEST(OpCasesTest, TheGpuAgreesWithTheCpu) {
  SelftestDevices all{devices(0), [](int) { return devices(0); }};
  std::set<std::string> run, there;
  for (const OpCase& op_case : op_cases()) {
    there.insert(case_ops(op_case));
    if (elems_of(op_case) > most_elems(op_case)) continue;
    const CaseResult result = run_case(op_case, all, {.seed = 1234, .expects_fused = true});
    expect_passed(op_case, result);
    if (op_case.mesh.num_ranks() > 1) {
      EXPECT_NE(result.link.find("through GPU memory"), std::string::npos) << result.link;
    }
    run.insert(case_ops(op_case));
  }
  EXPECT_EQ(run, there) << "some ops or pairs have no case that is small";
}

TEST(OpCasesTest, RanksWithAGpuEachAgreeThroughNccl) {
  emulated::set_num_gpus(4, false);
  SelftestDevices all{devices(0), [](int rank) { return devices(rank); }};
  int cases = 0;
  for (const OpCase& op_case : op_cases()) {
    if (op_case.mesh.num_ranks() == 1 || elems_of(op_case) > most_elems(op_case)) continue;
    const CaseResult result = run_case(op_case, all, {.seed = 1234});
    expect_passed(op_case, result);
    EXPECT_NE(result.link.find("by NCCL 9.99.99"), std::string::npos) << result.link;
    ++cases;
  }
  EXPECT_GT(cases, 50);
}

TEST(OpCasesTest, NcclRefusesAWrongCallInGoodOrder) {
  const LinkCheck link = check_link(*devices(0).tested);
  EXPECT_TRUE(link.passed) << link.text;
  EXPECT_NE(link.text.find("is refused"), std::string::npos) << link.text;
}

}  // namespace
}  // namespace tessera
