#include "tessera/ops/linear.h"

#include "ops/op_check.h"
#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

OpCase linear_case(const Shape& x, std::int64_t out, bool bias) {
  const std::int64_t rows = x.num_rows(), in_width = x[-1];
  const auto build = [=](CaseGraph& c) {
    return linear(c.graph, "node", c.real("x", x), c.real("weight", {out, in_width}),
                  bias ? c.real("bias", {out}) : kNoValue);
  };
  const auto naive = [=](const CaseValues& in) {
    std::vector<double> y;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = bias ? in.at("bias")[o] : 0;
        for (std::int64_t i = 0; i < in_width; ++i) {
          sum += in.at("x")[r * in_width + i] * in.at("weight")[o * in_width + i];
        }
        y.push_back(sum);
      }
    }
    return y;
  };
  return {"linear" + x.text() + "to" + std::to_string(out) + (bias ? "bias" : ""), build, naive};
}

}  // namespace

OpFamily linear_family() {
  OpFamily family;
  for (bool bias : {false, true}) {
    family.cases.push_back(linear_case({5}, 3, bias));
    family.cases.push_back(linear_case({1, 1}, 1, bias));
    family.cases.push_back(linear_case({4, 3}, 6, bias));
    family.cases.push_back(linear_case({2, 3, 7}, 5, bias));
    family.cases.push_back(linear_case({2, 17, 3}, 1, bias));
  }
  // One weight for two products, the second on the first one's result.
  family.cases.push_back({"linear_shared_weight", [](CaseGraph& c) {
                            const ValueId weight = c.real("weight", {4, 4});
                            const ValueId once = linear(c.graph, "once", c.real("x", {3, 4}), weight);
                            return linear(c.graph, "twice", once, weight);
                          }});
  family.cases.push_back({"linear_computed_weight", [](CaseGraph& c) {
                            const ValueId weight = scale(c.graph, "weight2", c.real("weight", {4, 3}), 0.5);
                            return linear(c.graph, "node", c.real("x", {5, 3}), weight);
                          }});
  family.refused = {
      {Op::linear, {}, {f64({2, 3}), f64({5, 4})}, {"[2,3]", "[5,4]", "inner dim"}},
      {Op::linear, {}, {f64({2, 3}), f64({3})}, {"[3]", "[out, in]"}},
      {Op::linear, {}, {f64({}), f64({5, 1})}, {"[]", "[5,1]"}},
      {Op::linear, {}, {f64({2, 3}), f32({5, 3})}, {"input 1", "f32", "f64"}},
      {Op::linear, {}, {f64({2, 3}), f64({5, 3}), f64({3})}, {"[3]", "[5]"}},
      {Op::linear, {}, {f64({2, 3}), f64({5, 3}), f32({5})}, {"input 2", "f32", "f64"}},
      {Op::linear_grad_input, {}, {f64({2, 4}), f64({5, 3})}, {"[2,4]", "[5,3]", "outer dim"}},
      {Op::linear_grad_input, {}, {f64({2, 5}), f64({5})}, {"[5]", "[out, in]"}},
      {Op::linear_grad_input, {}, {f64({2, 5}), f32({5, 3})}, {"input 1", "f32", "f64"}},
      {Op::linear_grad_weight, {}, {f64({5, 3}), f64({2, 5}), f64({4, 3})}, {"[2,5]", "[4,3]", "rows"}},
      {Op::linear_grad_weight, {}, {f64({5, 4}), f64({2, 5}), f64({2, 3})}, {"[5,4]", "[5,3]"}},
      {Op::linear_grad_weight, {}, {f64({1, 1}), f64({}), f64({})}, {"[]", "1 dims"}},
      {Op::linear_grad_weight, {}, {f32({5, 3}), f64({2, 5}), f64({2, 3})}, {"input 0", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
