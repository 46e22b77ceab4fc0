#include "tessera/ops/elementwise.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily elementwise_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{3, 7}, Shape{2, 3, 5}}) {
    family.cases.push_back({"add" + shape.text(), [=](CaseGraph& c) {
                              return add(c.graph, "node", c.real("a", shape), c.real("b", shape));
                            }});
    family.cases.push_back({"mul" + shape.text(), [=](CaseGraph& c) {
                              return mul(c.graph, "node", c.real("a", shape), c.real("b", shape));
                            }});
    family.cases.push_back({"scale" + shape.text(),
                            [=](CaseGraph& c) { return scale(c.graph, "node", c.real("x", shape), -0.3); }});
  }
  for (const Shape& suffix : {Shape{}, Shape{5}, Shape{3, 5}}) {
    family.cases.push_back({"add[2,3,5]+" + suffix.text(), [=](CaseGraph& c) {
                              return add(c.graph, "node", c.real("a", {2, 3, 5}), c.real("b", suffix));
                            }});
  }
  // The broadcast operand is computed: its gradient starts from zeros and goes on to its producer.
  family.cases.push_back({"add_computed_suffix", [](CaseGraph& c) {
                            const ValueId bias = scale(c.graph, "bias", c.real("b", {5}), 3.0);
                            return add(c.graph, "node", c.real("a", {4, 5}), bias);
                          }});
  family.cases.push_back({"mul_by_itself", [](CaseGraph& c) {
                            const ValueId x = c.real("x", {3, 5});
                            return mul(c.graph, "node", x, x);
                          }});
  family.refused = {
      {Op::add, {}, {f64({2, 3}), f64({2})}, {"[2,3]", "[2]"}},
      {Op::add, {}, {f64({3}), f64({2, 3})}, {"[2,3]", "[3]"}},
      {Op::add, {}, {f64({3}), f32({3})}, {"input 1", "f32", "f64"}},
      {Op::add, {}, {i32({3}), i32({3})}, {"i32", "floating"}},
      {Op::mul, {}, {f64({2, 3}), f64({3})}, {"f64[2,3]", "f64[3]"}},
      {Op::mul, {}, {f64({3}), f32({3})}, {"f64[3]", "f32[3]"}},
      {Op::scale, ScaleAttrs{2.0}, {i32({3})}, {"i32", "floating"}},
      {Op::sum_to, {}, {f64({2}), f64({2, 3})}, {"[2]", "[2,3]"}},
      {Op::sum_to, {}, {f64({3}), f32({2, 3})}, {"input 0", "f64", "f32"}},
      {Op::zeros, ZerosAttrs{f64({3})}, {f64({3})}, {"1 inputs", "0"}},
  };
  return family;
}

}  // namespace tessera
