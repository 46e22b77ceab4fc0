#include "tessera/ops/rms_norm.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily rms_norm_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{4}, Shape{3, 7}, Shape{2, 3, 5}, Shape{5, 1}, Shape{2, 33}}) {
    family.cases.push_back({"rms_norm" + shape.text(), [=](CaseGraph& c) {
                              return rms_norm(c.graph, "node", c.real("x", shape),
                                              c.real("weight", {shape[-1]}), 0.1);
                            }});
  }
  const ValueType x = f64({2, 3}), row = f64({2}), column = f64({3});
  family.refused = {
      {Op::rms_norm, RmsNormAttrs{0.0}, {x, column}, {"eps is 0"}},
      {Op::rms_norm, RmsNormAttrs{-1e-5}, {x, column}, {"eps is -1e-05"}},
      {Op::rms_norm, RmsNormAttrs{}, {x, row}, {"[2]", "[3]"}},
      {Op::rms_norm, RmsNormAttrs{}, {f64({}), f64({1})}, {"[]", "1 dims"}},
      {Op::rms_norm, RmsNormAttrs{}, {x, f32({3})}, {"input 1", "f32", "f64"}},
      {Op::rms_norm_grad, {}, {x, f64({3, 2}), column, row, column}, {"f64[2,3]", "f64[3,2]"}},
      {Op::rms_norm_grad, {}, {x, x, row, row, column}, {"[2]", "[3]"}},
      {Op::rms_norm_grad, {}, {x, x, f32({3}), row, column}, {"input 2", "f32", "f64"}},
      {Op::rms_norm_grad, {}, {x, x, column, column, column}, {"f64[3]", "f64[2]"}},
      {Op::rms_norm_grad, {}, {x, x, column, row, row}, {"[2]", "[3]"}},
      {Op::rms_norm_grad, {}, {x, x, column, row, f32({3})}, {"input 4", "f32", "f64"}},
      {Op::rms_norm_grad, {}, {f64({}), f64({}), column, row, column}, {"[]", "1 dims"}},
  };
  return family;
}

}  // namespace tessera
