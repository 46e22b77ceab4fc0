#include "tessera/selftest/case_builders.h"

namespace tessera {

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_elementwise_cases(cases);
  add_row_cases(cases);
  add_product_cases(cases);
  add_attention_cases(cases);
  add_update_cases(cases);
  add_rank_cases(cases);
  return cases;
}

}  // namespace tessera
