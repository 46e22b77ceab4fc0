#include "tessera/ops/layer_norm.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily layer_norm_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{4}, Shape{3, 7}, Shape{2, 3, 5}, Shape{5, 2}, Shape{2, 33}}) {
    family.cases.push_back({"layer_norm" + shape.text(), [=](CaseGraph& c) {
                              return layer_norm(c.graph, "node", c.real("x", shape),
                                                c.real("weight", {shape[-1]}), c.real("bias", {shape[-1]}),
                                                0.1);
                            }});
  }
  const ValueType x = f64({2, 3}), row = f64({2}), column = f64({3});
  family.refused = {
      {Op::layer_norm, LayerNormAttrs{0.0}, {x, column, column}, {"eps is 0"}},
      {Op::layer_norm, LayerNormAttrs{-1e-5}, {x, column, column}, {"eps is -1e-05"}},
      {Op::layer_norm, LayerNormAttrs{}, {x, row, column}, {"input 1", "[2]", "[3]"}},
      {Op::layer_norm, LayerNormAttrs{}, {x, column, row}, {"input 2", "[2]", "[3]"}},
      {Op::layer_norm, LayerNormAttrs{}, {f64({}), column, column}, {"[]", "1 dims"}},
      {Op::layer_norm, LayerNormAttrs{}, {x, column, f32({3})}, {"input 2", "f32", "f64"}},
      {Op::layer_norm_grad, {}, {x, f64({3, 2}), column, row, row, column, column}, {"f64[2,3]", "f64[3,2]"}},
      {Op::layer_norm_grad, {}, {x, x, row, row, row, column, column}, {"[2]", "[3]"}},
      {Op::layer_norm_grad, {}, {x, x, column, row, column, column, column}, {"f64[3]", "f64[2]"}},
      {Op::layer_norm_grad, {}, {x, x, column, row, row, row, column}, {"input 5", "[2]", "[3]"}},
      {Op::layer_norm_grad, {}, {x, x, column, row, row, column, f32({3})}, {"input 6", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
