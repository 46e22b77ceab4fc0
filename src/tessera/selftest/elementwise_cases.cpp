// Ops on single elements, on columns and on tables.
#include "tessera/ops/activation.h"
#include "tessera/ops/add_positions.h"
#include "tessera/ops/dropout_add.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/slice.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

void add_arithmetic(std::vector<OpCase>& cases, DType t) {
  const double bound = element_bound(t);
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{8, 1024, 768}, {768}},
                             {{8, 1024, 768}, {8, 1024, 768}},
                             {{5, 7, 33}, {33}},
                             {{1001}, {1001}}}) {
    cases.push_back({Op::add, "", {}, {normal(t, a), normal(t, b)}, bound});
  }
  for (const Shape& shape : {Shape{4096, 768}, Shape{3, 43, 129}}) {
    cases.push_back({Op::mul, "", {}, {normal(t, shape), normal(t, shape)}, bound});
    cases.push_back({Op::scale, "", ScaleAttrs{0.37}, {normal(t, shape)}, bound});
  }
  cases.push_back({Op::zeros, "", ZerosAttrs{{t, {7, 13}}}, {}, 0});
  for (const auto& [x, sums] : {std::pair<Shape, Shape>{{8, 1024, 768}, {768}},
                                {{1000, 33}, {33}},
                                {{32768, 768}, {768}},
                                {{8192, 3072}, {3072}},
                                {{1001, 1600}, {1600}},
                                {{3, 50257}, {50257}},
                                {{1, 5}, {5}},
                                {{6, 4, 8}, {4, 8}}}) {
    cases.push_back({Op::sum_to, "", {}, {normal(DType::f32, sums), normal(t, x)}, sum_bound(DType::f32)});
  }
}

void add_columns(std::vector<OpCase>& cases, DType t) {
  for (const std::int64_t columns : {96, 33}) {
    const std::int64_t third = columns / 3;
    cases.push_back({Op::slice, "", SliceAttrs{third, third}, {normal(t, {4, 100, columns})}, 0});
    cases.push_back({Op::pad, "", PadAttrs{third, columns}, {normal(t, {4, 100, third})}, 0});
    cases.push_back({Op::slice, "rows", SliceAttrs{3, 40, -2}, {normal(t, {4, 100, columns})}, 0});
    cases.push_back({Op::pad, "rows", PadAttrs{3, 100, -2}, {normal(t, {4, 40, columns})}, 0});
    cases.push_back(
        {Op::concat, "", {}, {normal(t, {7, third}), normal(t, {7, columns}), normal(t, {7, third})}, 0});
  }
}

void add_activations(std::vector<OpCase>& cases, DType t) {
  const double bound = element_bound(t);
  for (const Shape& shape : {Shape{8192, 3072}, Shape{5, 201}}) {
    const CaseInput x = normal(t, shape, 2);
    cases.push_back({Op::silu, "", {}, {x}, bound});
    cases.push_back({Op::silu_grad, "", {}, {x, x}, bound});
    cases.push_back({Op::tanh, "", {}, {x}, bound});
    cases.push_back({Op::tanh_grad, "", {}, {x, x}, bound});
    for (const bool tanh : {false, true}) {
      cases.push_back({Op::gelu, tanh ? "tanh" : "erf", GeluAttrs{tanh}, {x}, bound});
      cases.push_back({Op::gelu_grad, tanh ? "tanh" : "erf", GeluAttrs{tanh}, {x, x}, bound});
    }
  }
  for (const auto& [rows, width] : {std::pair{1024, 11008}, {70000, 8}, {5, 33}, {1, 8}}) {
    cases.push_back({Op::swiglu, "", {}, {normal(t, {rows, 2 * width}, 2)}, bound});
    cases.push_back(
        {Op::swiglu_grad, "", {}, {normal(t, {rows, width}), normal(t, {rows, 2 * width}, 2)}, bound});
  }
}

// The first sequence is far into the global batch: the counters pass 2^32. Of {8, 3, 33} packs fit, but not
// the random numbers' blocks.
void add_dropout(std::vector<OpCase>& cases, DType t) {
  const CaseInput key = integers({4}, 100'000, 2'000'000'000);
  for (const Shape& shape : {Shape{8, 1024, 768}, Shape{8, 3, 33}, Shape{3, 5, 33}, Shape{1, 1, 8}}) {
    const CaseInput x = normal(t, shape);
    const DropoutAttrs attrs{.rate = 0.1, .stream = 7};
    cases.push_back({Op::dropout_add, "with residual", attrs, {x, key, x}, element_bound(t)});
    cases.push_back({Op::dropout_add, "", attrs, {x, key}, element_bound(t)});
    cases.push_back({Op::dropout_grad, "", attrs, {x, key}, element_bound(t)});
  }
}

void add_tables(std::vector<OpCase>& cases, DType t) {
  struct Table {
    std::int64_t words, width;
    Shape ids;
    std::int64_t used;  // ids below this
  };
  // The third has runs of hundreds of equal ids, the next one of a few dozen, the last a single token.
  for (const Table& table : {Table{50257, 768, {8, 1024}, 50257},
                             {31, 33, {3, 5}, 31},
                             {5000, 768, {4, 1000}, 5},
                             {3200, 1024, {1, 8192}, 100},
                             {1000, 64, {2, 333}, 300},
                             {7, 8, {1, 1}, 7}}) {
    const CaseInput ids = integers(table.ids, 0, table.used);
    const Shape whole{table.words, table.width}, rows{table.ids[0], table.ids[1], table.width};
    cases.push_back({Op::embedding, "", EmbeddingAttrs{}, {normal(t, whole), ids}, 0});
    cases.push_back({Op::embedding_grad,
                     "",
                     EmbeddingAttrs{},
                     {normal(DType::f32, whole), ids, normal(t, rows)},
                     sum_bound(DType::f32)});
    cases.push_back({Op::embedding_grad,
                     "with padding",
                     EmbeddingAttrs{.padding_id = 0},
                     {normal(DType::f32, whole), ids, normal(t, rows)},
                     sum_bound(DType::f32)});
  }
  for (const Shape& x : {Shape{8, 1024, 768}, Shape{2, 100, 33}, Shape{3, 1, 8}}) {
    const Shape table{1024, x[2]};
    cases.push_back(
        {Op::add_positions, "", AddPositionsAttrs{}, {normal(t, x), normal(t, table)}, element_bound(t)});
    cases.push_back({Op::add_positions,
                     "continued",
                     AddPositionsAttrs{},
                     {normal(t, x), normal(t, table), integers({1}, 0, 1024)},
                     element_bound(t)});
    cases.push_back({Op::add_positions_grad,
                     "",
                     AddPositionsAttrs{},
                     {normal(DType::f32, table), normal(t, x)},
                     sum_bound(DType::f32)});
  }
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    add_arithmetic(cases, t);
    add_columns(cases, t);
    add_activations(cases, t);
    add_dropout(cases, t);
    add_tables(cases, t);
  }
}

}  // namespace tessera
