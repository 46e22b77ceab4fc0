#include <algorithm>
#include <set>

#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

// Shapes of models, which show a device's speed. Those of products say themselves that they are large.
bool is_large(const OpCase& op_case) {
  constexpr std::int64_t kElems = 1 << 24;
  return std::ranges::any_of(all_inputs(op_case),
                             [](const CaseInput& input) { return input.type.shape.num_elems() > kElems; });
}

bool is_bf16(const OpCase& op_case) {
  return std::ranges::any_of(all_inputs(op_case),
                             [](const CaseInput& input) { return input.type.dtype == DType::bf16; });
}

// Large cases take a CPU long: where an op has some in bf16, those in fp32 are left out.
void leave_out_large_twins(std::vector<OpCase>& cases) {
  std::set<Op> in_bf16;
  for (const OpCase& op_case : cases) {
    if (op_case.large && is_bf16(op_case)) in_bf16.insert(op_case.op);
  }
  std::erase_if(cases, [&](const OpCase& op_case) {
    return op_case.large && !is_bf16(op_case) && in_bf16.contains(op_case.op);
  });
}

}  // namespace

std::vector<CaseInput> all_inputs(const OpCase& op_case) {
  std::vector<CaseInput> inputs = op_case.inputs;
  if (op_case.next) inputs.insert(inputs.end(), op_case.next->inputs.begin(), op_case.next->inputs.end());
  return inputs;
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_elementwise_cases(cases);
  add_row_cases(cases);
  add_product_cases(cases);
  add_attention_cases(cases);
  add_update_cases(cases);
  add_rank_cases(cases);
  add_pair_cases(cases);
  for (OpCase& op_case : cases) op_case.large = op_case.large || is_large(op_case);
  leave_out_large_twins(cases);
  return cases;
}

}  // namespace tessera
