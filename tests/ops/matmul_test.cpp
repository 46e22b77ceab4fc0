#include "tessera/ops/matmul.h"

#include "ops/op_check.h"

namespace tessera {
namespace {

struct Sizes {
  std::int64_t batch, m, n, k;
};

OpCase matmul_case(const Sizes& s, const MatmulAttrs& attrs) {
  const Shape a = attrs.transpose_a ? Shape{s.batch, s.k, s.m} : Shape{s.batch, s.m, s.k};
  const Shape b = attrs.transpose_b ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n};
  const auto naive = [=](const CaseValues& in) {
    std::vector<double> c;
    for (std::int64_t batch = 0; batch < s.batch; ++batch) {
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            const std::int64_t a_at = attrs.transpose_a ? k * s.m + i : i * s.k + k;
            const std::int64_t b_at = attrs.transpose_b ? j * s.k + k : k * s.n + j;
            sum += in.at("a")[batch * s.m * s.k + a_at] * in.at("b")[batch * s.k * s.n + b_at];
          }
          c.push_back(sum);
        }
      }
    }
    return c;
  };
  return {"matmul " + a.text() + b.text() + Attrs(attrs).text(),
          [=](CaseGraph& c) { return matmul(c.graph, "node", c.real("a", a), c.real("b", b), attrs); },
          naive};
}

}  // namespace

OpFamily matmul_family() {
  OpFamily family;
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      for (const Sizes& sizes : {Sizes{1, 1, 1, 1}, Sizes{2, 3, 5, 4}, Sizes{3, 1, 7, 2}}) {
        family.cases.push_back(matmul_case(sizes, {transpose_a, transpose_b}));
      }
    }
  }
  family.refused = {
      {Op::matmul, MatmulAttrs{}, {f64({2, 3}), f64({4, 5})}, {"[2,3]", "[4,5]", "3 and 4"}},
      {Op::matmul, MatmulAttrs{true, true}, {f64({2, 3}), f64({4, 5})}, {"[2,3]", "[4,5]", "2 and 5"}},
      {Op::matmul, MatmulAttrs{}, {f64({2, 2, 3}), f64({3, 3, 5})}, {"leading", "[2,2,3]", "[3,3,5]"}},
      {Op::matmul, MatmulAttrs{}, {f64({2, 2, 3}), f64({3, 5})}, {"rank", "[2,2,3]", "[3,5]"}},
      {Op::matmul, MatmulAttrs{}, {f64({3}), f64({3})}, {"at least 2", "[3]"}},
      {Op::matmul, MatmulAttrs{}, {f64({2, 3}), f32({3, 5})}, {"input 1", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
