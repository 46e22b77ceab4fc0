#include "tessera/ops/rope.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily rope_family() {
  OpFamily family;
  const auto rope_case = [&](std::int64_t seq_len, const HeadLayout& heads, std::int64_t rotary_dim) {
    family.cases.push_back(
        {"rope_t" + std::to_string(seq_len) + "_rotary" + std::to_string(rotary_dim), [=](CaseGraph& c) {
           const ValueId table = rope_table(c.graph, "table", {seq_len, rotary_dim, 100.0, DType::f64});
           return rope(c.graph, "node", c.real("qkv", {2, seq_len, heads.qkv_columns()}), table, heads);
         }});
  };
  rope_case(1, {1, 1, 2}, 2);
  rope_case(5, {2, 1, 4}, 4);
  rope_case(3, {2, 2, 6}, 4);  // the last two elements of a head do not turn
  rope_case(4, {4, 2, 8}, 8);
  const RopeAttrs attrs{{2, 1, 4}, false};
  family.refused = {
      {Op::rope_table, RopeTableAttrs{4, 3, 1e4, DType::f64}, {}, {"rotary dim is 3"}},
      {Op::rope_table, RopeTableAttrs{0, 4, 1e4, DType::f64}, {}, {"sequence length is 0"}},
      {Op::rope_table, RopeTableAttrs{4, 4, 0.0, DType::f64}, {}, {"theta is 0"}},
      {Op::rope, attrs, {f64({2, 5, 12}), f64({5, 2, 2})}, {"[2,5,12]", "[B, T, 16]"}},
      {Op::rope, attrs, {f64({2, 5, 16}), f64({4, 2, 2})}, {"[4,2,2]", "[5, at most 2, 2]"}},
      {Op::rope, attrs, {f64({2, 5, 16}), f64({5, 4, 2})}, {"[5,4,2]", "[5, at most 2, 2]"}},
      {Op::rope, attrs, {f64({2, 5, 16}), f32({5, 2, 2})}, {"input 1", "f32", "f64"}},
      {Op::rope, attrs, {f64({2, 5, 16}), f64({9, 2, 2}), i32({2})}, {"[2]", "[1]"}},
      {Op::rope,
       RopeAttrs{{3, 2, 4}, false},
       {f64({2, 5, 28}), f64({5, 2, 2})},
       {"3 query heads", "2 key heads"}},
  };
  return family;
}

}  // namespace tessera
