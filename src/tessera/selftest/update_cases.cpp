// The ops of the update program.
#include "tessera/ops/lamb.h"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/ops/sgd.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

// How a parameter, its state and its gradient may be stored; and whether the parameter is the rounding of an
// fp32 weight.
struct UpdateTypes {
  DType param, state, grad;
  bool split = false;
};
constexpr UpdateTypes kUpdateTypes[] = {
    {DType::f32, DType::f32, DType::f32},         {DType::f32, DType::bf16, DType::f32},
    {DType::bf16, DType::f32, DType::f32, true},  {DType::bf16, DType::bf16, DType::f32},
    {DType::bf16, DType::f32, DType::bf16, true}, {DType::bf16, DType::bf16, DType::bf16}};

void add_update_rules(std::vector<OpCase>& cases, const UpdateTypes& types, const Shape& shape) {
  const CaseInput param = normal(types.param, shape), grad = normal(types.grad, shape);
  const CaseInput moment1 = normal(types.state, shape, 0.1), moment2 = uniform(types.state, shape, 0, 0.1);
  const CaseInput rate = uniform(DType::f32, {}, 1e-3, 2e-3), step = integers({}, 3, 400);
  const CaseInput clip = uniform(DType::f32, {}, 0.5, 1), squares = uniform(DType::f32, {6}, 1, 9);
  const auto add = [&](Op op, Attrs attrs, std::vector<CaseInput> inputs, std::string_view note = "") {
    if (types.split) inputs.push_back({{DType::i16, shape}, CaseInput::Fill::integer, -32768, 32768});
    const bool narrow = !types.split && (types.param == DType::bf16 || types.state == DType::bf16);
    cases.push_back(
        {op, fmt::format("state {}{}{}", dtype_name(types.state), types.split ? ", low halves" : "", note),
         std::move(attrs), std::move(inputs), element_bound(narrow ? DType::bf16 : DType::f32)});
  };
  const std::vector<CaseInput> adamw = {param, grad, moment1, moment2, rate, step, clip};
  add(Op::adamw, AdamWAttrs{0.9, 0.95, 1e-8, 0.1, AdamWForm::torch, 0x1234567890abcdef}, adamw);
  add(Op::adamw, AdamWAttrs{0.9, 0.999, 1e-6, 0.1, AdamWForm::transformers}, adamw, ", transformers' form");
  add(Op::sgd, SgdAttrs{0.9, 0.1}, {param, grad, moment1, rate, clip});
  if (types.grad != DType::f32) return;
  add(Op::lamb_direction, LambDirectionAttrs{0.9, 0.999, 1e-6, 0.01},
      {param, grad, moment1, moment2, step, clip});
  if (types.state == (types.split ? DType::f32 : types.param)) {
    add(Op::lamb, LambAttrs{.index = 2}, {param, grad, rate, squares});
    add(Op::lamb, LambAttrs{.index = 4, .trust_clip = true}, {param, grad, rate, squares});
  }
}

}  // namespace

void add_update_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    for (const Shape& shape : {Shape{8192, 4096}, Shape{300, 4096}, Shape{1003}, Shape{1}}) {
      cases.push_back({Op::sum_squares, "", SumSquaresAttrs{}, {normal(t, shape)}, 1e-6});
    }
    const CaseInput x = normal(t, {33, 7});
    cases.push_back({Op::sum_squares, "of two", SumSquaresAttrs{}, {x, x}, 1e-6});
  }
  for (const UpdateTypes& types : kUpdateTypes) {
    // Those of most runs with more elements than caches hold, for their speed.
    const bool usual = types.state == DType::f32 && types.grad == DType::f32;
    for (const Shape& shape : {Shape{usual ? 4096 : 512, 4096}, Shape{1003}, Shape{1}})
      add_update_rules(cases, types, shape);
  }
  for (const std::size_t count : {1u, 3u, 600u}) {
    const std::vector<CaseInput> scalars(count, uniform(DType::f32, {}, 0, 10));
    cases.push_back({Op::stack_scalars, fmt::format("{} scalars", count), {}, scalars, 0});
    cases.push_back({Op::sum_scalars, fmt::format("{} scalars", count), {}, scalars, 1e-6});
  }
  for (const double max_norm : {0.0, 1.0, 100.0}) {
    cases.push_back({Op::clip_factor,
                     fmt::format("at {}", max_norm),
                     ClipFactorAttrs{max_norm},
                     {uniform(DType::f64, {}, 1, 400)},
                     1e-6});
  }
}

}  // namespace tessera
