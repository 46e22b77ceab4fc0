// The ops of the update program.
#include "tessera/ops/optimizer_ops.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

void add_adamw(std::vector<OpCase>& cases, DType t, const Shape& shape) {
  std::vector<CaseInput> inputs{normal(t, shape),
                                normal(DType::f32, shape),
                                normal(DType::f32, shape, 0.1),
                                uniform(DType::f32, shape, 0, 0.1),
                                uniform(DType::f32, {}, 1e-3, 2e-3),
                                integers({}, 3, 400),
                                uniform(DType::f32, {}, 0.5, 1)};
  if (t == DType::bf16) inputs.push_back(normal(DType::f32, shape));
  cases.push_back({Op::adamw, "", AdamWAttrs{0.9, 0.95, 1e-8, 0.1}, std::move(inputs), element_bound(t)});
}

}  // namespace

void add_update_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    for (const Shape& shape : {Shape{4096, 4096}, Shape{1003}, Shape{1}}) {
      cases.push_back({Op::sum_squares, "", SumSquaresAttrs{}, {normal(t, shape)}, 1e-6});
      add_adamw(cases, t, shape);
    }
  }
  for (const std::size_t count : {1u, 3u, 600u}) {
    const std::vector<CaseInput> scalars(count, uniform(DType::f32, {}, 0, 10));
    cases.push_back({Op::sum_scalars, fmt::format("{} scalars", count), {}, scalars, 1e-6});
  }
  for (const double max_norm : {0.0, 1.0, 100.0}) {
    cases.push_back({Op::clip_factor,
                     fmt::format("at {}", max_norm),
                     ClipFactorAttrs{max_norm},
                     {uniform(DType::f32, {}, 1, 400)},
                     1e-6});
  }
}

}  // namespace tessera
