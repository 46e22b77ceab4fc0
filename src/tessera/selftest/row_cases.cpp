// Ops on rows: norms, softmax, losses on given logits.
#include "tessera/ops/layer_norm.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/ops/softmax.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

struct NormShape {
  std::int64_t rows, columns;
};

// A warp's rows of one to four packs, whole and not; a block's; rows that are no whole packs; rows wider than
// a block's threads hold.
constexpr NormShape kNormShapes[] = {{1000, 64},  {301, 384},   {8192, 768}, {1001, 1000}, {2048, 1024},
                                     {500, 1600}, {2048, 4096}, {1, 8192},   {3, 12288},   {5, 16384},
                                     {3, 20000},  {100, 33},    {70, 1601},  {2, 40001},   {300, 768},
                                     {150, 4096}, {140, 5120},  {90, 192},   {90, 512}};
// Widths of models, in bf16 alone; the first two with as many rows as speed needs.
constexpr NormShape kModelNormShapes[] = {{32768, 768}, {4096, 4096}, {2048, 1600}, {2049, 1024},
                                          {700, 5120},  {513, 8192},  {300, 12288}, {2049, 2048}};

void add_norms(std::vector<OpCase>& cases, DType t, const NormShape& shape) {
  const auto& [rows, columns] = shape;
  const CaseInput x = normal(t, {rows, columns}), weight = normal(t, {columns}),
                  dy = normal(t, {rows, columns});
  const CaseInput sums = normal(DType::f32, {columns});
  const CaseInput mean = normal(DType::f32, {rows}, 0.1), inverse = uniform(DType::f32, {rows}, 0.8, 1.2);
  // One bound for all outputs: a row's dot product has terms that cancel.
  const double bound = sum_bound(t);
  cases.push_back({Op::rms_norm, "", RmsNormAttrs{1e-5}, {x, weight}, bound});
  cases.push_back({Op::rms_norm_grad, "", {}, {dy, x, weight, inverse, sums}, bound});
  cases.push_back({Op::layer_norm, "", LayerNormAttrs{1e-5}, {x, weight, weight}, bound});
  cases.push_back({Op::layer_norm_grad, "", {}, {dy, x, weight, mean, inverse, sums, sums}, bound});
}

void add_softmaxes(std::vector<OpCase>& cases, DType t, std::int64_t rows, std::int64_t columns) {
  const CaseInput logits = normal(t, {rows, columns}, 3), scale = uniform(DType::f32, {}, 0.1, 0.2);
  // Negative targets: some rows are not scored.
  const CaseInput targets = integers({rows}, columns > 40 ? -20 : -1, columns);
  cases.push_back({Op::softmax, "", {}, {logits}, element_bound(t)});
  cases.push_back(
      {Op::softmax_grad,
       "",
       {},
       {normal(t, {rows, columns}), uniform(t, {rows, columns}, 0, 2.0 / static_cast<double>(columns))},
       sum_bound(t)});
  cases.push_back({Op::softmax_cross_entropy, "", {}, {logits, targets, scale}, 1e-5});
  cases.push_back({Op::softmax_cross_entropy_grad, "", {}, {logits, targets, scale}, element_bound(t)});
}

}  // namespace

void add_row_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    for (const NormShape& shape : kNormShapes) add_norms(cases, t, shape);
    if (t == DType::bf16) {
      for (const NormShape& shape : kModelNormShapes) add_norms(cases, t, shape);
    }
    for (const auto& [rows, columns] : {std::pair{256, 50257}, {1024, 1024}, {100, 33}, {2, 1}}) {
      add_softmaxes(cases, t, rows, columns);
    }
    for (const std::int64_t seq_len : {1, 100}) {
      cases.push_back({Op::causal_mask, "", CausalMaskAttrs{{t, {seq_len, seq_len}}}, {}, 0});
    }
  }
}

}  // namespace tessera
