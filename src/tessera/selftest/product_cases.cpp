// Matrix products and the loss that ends in one.
#include <cmath>

#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/matmul.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

struct ProductShape {
  std::int64_t rows, in, out;
  bool large = false;
};

// Weights as small as a model's: outputs are then about 1.
CaseInput weight(DType t, std::int64_t out, std::int64_t in) {
  return normal(t, {out, in}, 1 / std::sqrt(static_cast<double>(in)));
}

void add_linear(std::vector<OpCase>& cases, DType t, const ProductShape& s) {
  const CaseInput x = normal(t, {s.rows, s.in}), dy = normal(t, {s.rows, s.out}), w = weight(t, s.out, s.in);
  const auto add = [&](Op op, std::string label, std::vector<CaseInput> inputs, double bound) {
    OpCase added{op, std::move(label), {}, std::move(inputs), bound};
    added.large = s.large;
    cases.push_back(std::move(added));
  };
  add(Op::linear, "", {x, w}, sum_bound(t));
  add(Op::linear, "with bias", {x, w, normal(t, {s.out})}, sum_bound(t));
  add(Op::linear_grad_input, "", {dy, weight(t, s.out, s.in)}, sum_bound(t));
  // The accumulator is fp32 whatever the operands, or like them.
  add(Op::linear_grad_weight, "", {normal(DType::f32, {s.out, s.in}), dy, x}, wide_sum_bound(t));
  if (t == DType::bf16) add(Op::linear_grad_weight, "", {normal(t, {s.out, s.in}), dy, x}, sum_bound(t));
}

void add_matmul(std::vector<OpCase>& cases, DType t, std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      cases.push_back(
          {Op::matmul,
           std::string(ta ? "T" : "N") + (tb ? "T" : "N"),
           MatmulAttrs{ta, tb},
           {normal(t, ta ? Shape{2, 3, k, m} : Shape{2, 3, m, k}, 1 / std::sqrt(static_cast<double>(k))),
            normal(t, tb ? Shape{2, 3, n, k} : Shape{2, 3, k, n})},
           sum_bound(t)});
    }
  }
}

struct LossShape {
  std::int64_t rows, width, words, chunk;
  bool large = false;
  bool bias = false;
  std::int64_t padding = 0;  // rows of the weight that are no words
};

// The loss' gradient is a number that bf16 holds: a target's logit has about minus that, and two rows of the
// same word, whose parts of a sum may nearly cancel, are then rounded alike. Half way between two such
// numbers they are not: by 7.5e-2 of the sums' rms for 1024 rows and 32,000 words, imitated on the host.
void add_loss(std::vector<OpCase>& cases, DType t, const LossShape& s) {
  const LinearCrossEntropyAttrs attrs{
      .chunk_rows = s.chunk, .rows = s.rows, .words = s.padding > 0 ? s.words : 0};
  const std::vector<CaseInput> inputs{normal(t, {s.rows, s.width}), weight(t, s.words + s.padding, s.width),
                                      integers({s.rows}, -1, s.words), uniform(DType::f32, {}, 0.625, 0.625)};
  std::vector<CaseInput> with_sums = inputs;
  with_sums.push_back(normal(DType::f32, {s.words + s.padding, s.width}));
  const std::string label = s.padding > 0 ? "padded" : "";
  OpCase loss{Op::linear_cross_entropy, label, attrs, inputs, loss_bound(t)};
  // In bf16 logits and their gradients are rounded before the products, on one device and not on the other.
  OpCase grad{Op::linear_cross_entropy_grad, label, attrs, with_sums, t == DType::bf16 ? 2e-2 : sum_bound(t)};
  loss.large = grad.large = s.large;
  if (s.bias) {
    const std::int64_t rows = s.words + s.padding;
    for (OpCase* op_case : {&loss, &grad}) {
      op_case->label += op_case->label.empty() ? "bias" : ", bias";
      op_case->inputs.push_back(normal(t, {rows}));
    }
    grad.inputs.push_back(normal(DType::f32, {rows}));
  }
  cases.push_back(std::move(loss));
  cases.push_back(std::move(grad));
}

}  // namespace

void add_product_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    for (const ProductShape& s : {ProductShape{100, 33, 65},
                                  {1, 768, 2304},
                                  {64, 40, 24},
                                  {2048, 768, 768},
                                  {8192, 768, 3072, true},
                                  {4096, 4096, 4096, true}}) {
      add_linear(cases, t, s);
    }
    add_matmul(cases, t, 100, 64, 64);
    add_matmul(cases, t, 33, 17, 9);
    for (const LossShape& s : {LossShape{10, 33, 101, 4},
                               {7, 16, 64, 7},
                               {96, 64, 1003, 64},
                               {10, 33, 101, 4, false, true},
                               {96, 64, 1003, 64, false, true, 21},
                               {70, 40, 50, 64, false, false, 14},
                               // A row of logits in bf16 is all of the shared memory that needs no asking.
                               {9, 16, 24576, 9},
                               // One that leaves no room beside it, and one that has not enough there.
                               {9, 16, 100352, 9},
                               {9, 16, 120001, 9},
                               {9, 16, 300032, 9},
                               // Words of GPT-2 and of Qwen2; then more chunks than one on every device.
                               {512, 96, 50257, 192, true},
                               {2048, 768, 50304, 1024, true},
                               {300, 64, 152064, 100, true},
                               {2100, 16, 300032, 64, true}}) {
      add_loss(cases, t, s);
    }
  }
}

}  // namespace tessera
