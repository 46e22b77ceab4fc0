#include "tessera/ops/softmax.h"

#include "ops/op_check.h"
#include "tessera/ops/elementwise.h"

namespace tessera {

OpFamily softmax_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{2, 3, 5}, Shape{2, 33}}) {
    family.cases.push_back({"softmax" + shape.text(),
                            [=](CaseGraph& c) { return softmax(c.graph, "node", c.real("x", shape)); }});
  }
  family.cases.push_back(
      {"softmax_masked", [](CaseGraph& c) {
         const ValueId mask = causal_mask(c.graph, "mask", DType::f64, 5);
         return softmax(c.graph, "node", add(c.graph, "add", c.real("x", {2, 5, 5}), mask));
       }});
  family.refused = {
      {Op::softmax, {}, {f64({})}, {"[]", "1 dims"}},
      {Op::softmax, {}, {i32({3})}, {"i32", "floating"}},
      {Op::softmax_grad, {}, {f64({2, 3}), f64({3})}, {"f64[2,3]", "f64[3]"}},
      {Op::softmax_grad, {}, {f64({}), f64({})}, {"[]", "1 dims"}},
      {Op::causal_mask, CausalMaskAttrs{f64({3, 4})}, {}, {"f64[3,4]", "[T, T]"}},
      {Op::causal_mask, CausalMaskAttrs{i32({3, 3})}, {}, {"i32[3,3]", "[T, T]"}},
      {Op::causal_mask, CausalMaskAttrs{f64({3, 3})}, {f64({3})}, {"1 inputs", "0"}},
  };
  return family;
}

}  // namespace tessera
