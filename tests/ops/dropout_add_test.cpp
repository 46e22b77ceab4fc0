#include "tessera/ops/dropout_add.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily dropout_add_family() {
  OpFamily family;
  // The key fixes the mask, so that the op is an ordinary function of x and the residual.
  for (const Shape& shape : {Shape{1}, Shape{5, 7}, Shape{2, 3, 5}, Shape{3, 301}}) {
    for (bool residual : {false, true}) {
      family.cases.push_back({"dropout_add" + shape.text() + (residual ? "residual" : ""), [=](CaseGraph& c) {
                                const ValueId key = c.constant("key", kDropoutKeyType, {12, -7, 3, 1});
                                const ValueId base = residual ? c.real("residual", shape) : kNoValue;
                                return dropout_add(c.graph, "node", c.real("x", shape), base, key, {0.3, 2});
                              }});
    }
  }
  const DropoutAttrs attrs{0.1, 0};
  family.refused = {
      {Op::dropout_add, attrs, {f64({2, 3}), kDropoutKeyType, f64({3})}, {"f64[2,3]", "f64[3]"}},
      {Op::dropout_add, attrs, {f64({2, 3}), i32({2})}, {"i32[2]", "i32[4]"}},
      {Op::dropout_add, DropoutAttrs{1.0, 0}, {f64({2, 3}), kDropoutKeyType}, {"rate is 1"}},
      {Op::dropout_add, DropoutAttrs{-0.5, 0}, {f64({2, 3}), kDropoutKeyType}, {"rate is -0.5"}},
      {Op::dropout_add, attrs, {i32({2, 3}), kDropoutKeyType}, {"i32", "floating"}},
      {Op::dropout_grad, attrs, {f64({2, 3}), f64({4})}, {"f64[4]", "i32[4]"}},
      {Op::dropout_grad, attrs, {i32({2, 3}), kDropoutKeyType}, {"i32", "floating"}},
  };
  return family;
}

}  // namespace tessera
