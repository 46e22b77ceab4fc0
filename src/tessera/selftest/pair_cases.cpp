// Nodes that a device may run as one, two by two. Each pair has shapes that its kernel takes, and one that it
// leaves to the two nodes' own kernels.
#include <cmath>

#include "tessera/ops/activation.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/layer_norm.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/ops/rope.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

struct PairedProduct {
  std::int64_t rows, in, out;
  bool large = false;
};

// The value between the two is one rounding apart, 2^-7, which gelu makes 1.3 times as large a part of its
// result at most; then that is rounded, too. A kernel that does not round in between lies in the middle.
constexpr double kGeluBound = 2.3 / 128;

void add_gelu_products(std::vector<OpCase>& cases, const PairedProduct& s) {
  const DType t = DType::bf16;
  const GeluAttrs tanh{true};
  const CaseInput x = normal(t, {s.rows, s.in}), dy = normal(t, {s.rows, s.out});
  const CaseInput weight = normal(t, {s.out, s.in}, 1 / std::sqrt(static_cast<double>(s.in)));
  const auto add = [&](Op op, std::string label, std::vector<CaseInput> inputs, NextNode next) {
    OpCase added{op, std::move(label), {}, std::move(inputs), kGeluBound};
    added.large = s.large;
    added.next = std::move(next);
    cases.push_back(std::move(added));
  };
  // Training keeps gelu's argument for the backward pass; evaluation does not.
  for (const bool kept : {true, false}) {
    const std::string label = kept ? "argument kept" : "";
    add(Op::linear, label, {x, weight}, {.op = Op::gelu, .attrs = tanh, .inputs = {}, .shared = kept});
    add(Op::linear, kept ? "with bias, argument kept" : "with bias", {x, weight, normal(t, {s.out})},
        {.op = Op::gelu, .attrs = tanh, .inputs = {}, .shared = kept});
  }
  add(Op::linear_grad_input, "", {dy, weight}, {.op = Op::gelu_grad, .attrs = tanh, .inputs = {x}});
}

struct PairedRows {
  std::int64_t rows, columns;
};

// Widths of models and odd ones: rows of a warp, of a block, and wider than a block's threads hold.
constexpr PairedRows kPairedRows[] = {{301, 768},  {200, 1600}, {60, 4096}, {1000, 4096}, {8192, 768},
                                      {70, 1601},  {90, 192},   {300, 512}, {300, 1024},  {150, 2048},
                                      {140, 5120}, {70, 8192},  {40, 16384}};

// The sum is the same on all devices, so what follows is as far apart as in a norm alone.
void add_normed_sums(std::vector<OpCase>& cases, DType t, const PairedRows& shape) {
  const CaseInput x = normal(t, {shape.rows, shape.columns}), weight = normal(t, {shape.columns});
  const auto add = [&](NextNode norm) {
    norm.shared = true;  // the residual stream goes on
    cases.push_back({Op::add, "", {}, {x, x}, sum_bound(t)});
    cases.back().next = std::move(norm);
  };
  add({Op::rms_norm, RmsNormAttrs{1e-5}, {weight}});
  add({Op::layer_norm, LayerNormAttrs{1e-5}, {weight, weight}});
}

void add_added_norm_grads(std::vector<OpCase>& cases, DType t, const PairedRows& shape) {
  const auto& [rows, columns] = shape;
  const CaseInput x = normal(t, {rows, columns}), weight = normal(t, {columns});
  const CaseInput sums = normal(DType::f32, {columns});
  const CaseInput mean = normal(DType::f32, {rows}, 0.1), inverse = uniform(DType::f32, {rows}, 0.8, 1.2);
  // A dx of 4 or more may be one rounding, 2^-5, apart and then be cancelled down to the sums' rms of sqrt 2,
  // beside the roundings of the sum itself: 2.2e-2 + 2^-7.
  const double bound = t == DType::bf16 ? 3e-2 : sum_bound(t);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const auto add = [&](Op op, std::vector<CaseInput> inputs) {
      cases.push_back({op, at == 0 ? "" : "other + dx", {}, std::move(inputs), bound});
      cases.back().next = NextNode{.op = Op::add, .attrs = {}, .inputs = {x}, .reads_at = at};
    };
    add(Op::rms_norm_grad, {x, x, weight, inverse, sums});
    add(Op::layer_norm_grad, {x, x, weight, mean, inverse, sums, sums});
  }
}

struct TurnedCase {
  std::int64_t batch, seq_len;
  HeadLayout heads;
  std::int64_t rotary_dim;
  double dropout = 0;
};

void add_turned_attention(std::vector<OpCase>& cases, const TurnedCase& c) {
  const DType t = DType::bf16;
  const std::string label =
      fmt::format("{} heads, {} for keys, {} of {} turned{}", c.heads.heads, c.heads.kv_heads, c.rotary_dim,
                  c.heads.head_dim, c.dropout > 0 ? ", dropout" : "");
  // A turned element is made of two, which may be large beside it: errors that were small beside them are not
  // beside it, and one kernel does not round the two first, as two kernels do. Imitated on the host, the
  // roundings alone give up to 4.5e-2 by one kernel and 6.2e-2 by two.
  AttentionAttrs attrs{c.heads, 1 / std::sqrt(static_cast<double>(c.heads.head_dim)), true};
  attrs.dropout = c.dropout;
  OpCase added{Op::attention_grad, label, attrs, attention_grad_inputs(t, c.batch, c.seq_len, c.heads),
               2 * attention_grad_bound(t)};
  if (c.dropout > 0) added.inputs.push_back(integers({4}, 0, 1000));
  const CaseInput table = uniform(DType::f32, {c.seq_len, c.rotary_dim / 2, 2}, -1, 1);
  added.next = NextNode{Op::rope, RopeAttrs{c.heads, true}, {table}};
  cases.push_back(std::move(added));
}

}  // namespace

void add_pair_cases(std::vector<OpCase>& cases) {
  for (const PairedProduct& s : {PairedProduct{100, 33, 65},
                                 {64, 40, 24},
                                 {500, 256, 768},
                                 {2048, 768, 3072, true},
                                 {8192, 768, 3072, true}}) {
    add_gelu_products(cases, s);
  }
  for (const DType t : kCaseTypes) {
    for (const PairedRows& s : kPairedRows) {
      add_normed_sums(cases, t, s);
      add_added_norm_grads(cases, t, s);
    }
  }
  for (const TurnedCase& c : {TurnedCase{2, 300, {3, 3, 64}, 64},
                              {1, 500, {4, 2, 128}, 128},
                              {1, 1024, {2, 2, 128}, 128},
                              {2, 300, {3, 3, 64}, 32},
                              {2, 300, {3, 3, 64}, 64, 0.1},
                              {1, 200, {2, 2, 128}, 128, 0.1}}) {
    add_turned_attention(cases, c);
  }
}

}  // namespace tessera
