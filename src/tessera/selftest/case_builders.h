// Short words for the lists of cases: operands, and the errors that two right answers may differ by.
#pragma once

#include "tessera/ops/heads.h"
#include "tessera/ops/op_def.h"
#include "tessera/selftest/op_case.h"

namespace tessera {

inline CaseInput normal(DType dtype, Shape shape, double deviation = 1) {
  return {{dtype, shape}, CaseInput::Fill::normal, 0, deviation};
}
inline CaseInput uniform(DType dtype, Shape shape, double low, double high) {
  return {{dtype, shape}, CaseInput::Fill::uniform, low, high};
}
inline CaseInput integers(Shape shape, std::int64_t low, std::int64_t high) {
  return {{DType::i32, shape}, CaseInput::Fill::integer, static_cast<double>(low), static_cast<double>(high)};
}

inline constexpr DType kCaseTypes[] = {DType::f32, DType::bf16};

// One rounding apart in the stored type, and a few in fp32. A bf16 number's neighbour is up to 2^-7 away.
inline double element_bound(DType dtype) {
  return dtype == DType::bf16 ? 1.0 / 128 : 1e-5;
}
// Sums of many products in another order.
inline double sum_bound(DType dtype) {
  return dtype == DType::bf16 ? 1.0 / 100 : 5e-5;
}

// The same kept in fp32. Tensor cores cut what their sums of bf16 products shift out instead of rounding it.
inline double wide_sum_bound(DType dtype) {
  return dtype == DType::bf16 ? 3e-4 : 5e-5;
}

// The loss of logits that one device rounds to bf16 and the other does not. Each is off by at most 2^-8 of
// itself, so a row's loss by 2^-8 (|target's logit| + mean |logit| under the softmax): with logits of
// deviation at most 1 the second factor is about 2 on average, less than half of the loss of 64 words or
// more.
inline double loss_bound(DType dtype) {
  return dtype == DType::bf16 ? 1.0 / 512 : wide_sum_bound(dtype);
}

// In bf16 probabilities and their gradients are rounded before the second products, on one device and not on
// the other.
inline double attention_grad_bound(DType dtype) {
  return dtype == DType::bf16 ? 4e-2 : 5e-5;
}
// dout, qkv, out and lse. Made with the cases of attention, used by its pairs, too.
std::vector<CaseInput> attention_grad_inputs(DType dtype, std::int64_t batch, std::int64_t seq_len,
                                             const HeadLayout& heads);

// The lists, one per file.
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_row_cases(std::vector<OpCase>& cases);
void add_product_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);
void add_update_cases(std::vector<OpCase>& cases);
void add_rank_cases(std::vector<OpCase>& cases);
void add_pair_cases(std::vector<OpCase>& cases);

}  // namespace tessera
