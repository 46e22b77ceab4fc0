#include "tessera/ops/activation.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily activation_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 7}, Shape{2, 3, 5}}) {
    family.cases.push_back({"silu" + shape.text(),
                            [=](CaseGraph& c) { return silu(c.graph, "node", c.real("x", shape, 2.0)); }});
    family.cases.push_back({"tanh" + shape.text(),
                            [=](CaseGraph& c) { return tanh(c.graph, "node", c.real("x", shape, 2.0)); }});
    for (bool by_tanh : {false, true}) {
      family.cases.push_back({(by_tanh ? "gelu_tanh" : "gelu") + shape.text(), [=](CaseGraph& c) {
                                return gelu(c.graph, "node", c.real("x", shape, 2.0), by_tanh);
                              }});
    }
  }
  for (const Shape& shape : {Shape{2}, Shape{3, 14}, Shape{2, 3, 10}, Shape{2, 66}}) {
    family.cases.push_back({"swiglu" + shape.text(), [=](CaseGraph& c) {
                              return swiglu(c.graph, "node", c.real("gate_up", shape, 2.0));
                            }});
  }
  const GeluAttrs gelu_attrs{true};
  family.refused = {
      {Op::silu, {}, {i32({3})}, {"i32", "floating"}},
      {Op::silu_grad, {}, {f64({3}), f64({4})}, {"f64[3]", "f64[4]"}},
      {Op::tanh, {}, {i32({3})}, {"i32", "floating"}},
      {Op::tanh_grad, {}, {f64({3}), f64({4})}, {"f64[3]", "f64[4]"}},
      {Op::gelu, gelu_attrs, {i32({3})}, {"i32", "floating"}},
      {Op::gelu_grad, gelu_attrs, {f64({3}), f32({3})}, {"f64[3]", "f32[3]"}},
      {Op::swiglu, {}, {f64({2, 5})}, {"[2,5]", "[gate | up]"}},
      {Op::swiglu, {}, {f64({})}, {"[]", "[gate | up]"}},
      {Op::swiglu, {}, {i32({4})}, {"i32", "floating"}},
      {Op::swiglu_grad, {}, {f64({2, 3}), f64({2, 4})}, {"f64[2,3]", "f64[2,2]"}},
      {Op::swiglu_grad, {}, {f64({2, 2}), f64({2, 5})}, {"[2,5]", "[gate | up]"}},
      {Op::swiglu_grad, {}, {f64({}), f64({})}, {"[]", "[gate | up]"}},
  };
  return family;
}

}  // namespace tessera
