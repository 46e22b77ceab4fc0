// Ops whose operands are cut over two ranks, and the collectives. The ranks are threads of this process.
#include "tessera/ops/add_positions.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/dropout_add.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

constexpr Mesh kTwoTp{.tp = 2};
constexpr Mesh kTwoDp{.dp = 2};

// The bits of the host's sums, whatever the number of ranks. One rank: by the way GPUs talk that have a rank
// each, which is NCCL where it is found and takes half a second to set up, so that few cases have to do.
void add_collectives(std::vector<OpCase>& cases, DType t, int num_ranks) {
  const auto add = [&](Op op, std::string label, CollectiveAttrs attrs, std::vector<CaseInput> inputs) {
    attrs.num_ranks = attrs.axis_ranks = num_ranks;
    if (num_ranks == 1) attrs.group = Group::dp;
    const Mesh mesh = attrs.group == Group::dp ? Mesh{.dp = num_ranks} : Mesh{.tp = num_ranks};
    cases.push_back({op, std::move(label), attrs, std::move(inputs), 0, mesh});
    cases.back().grouped = num_ranks == 1;
  };
  add(Op::all_reduce, "", {.group = Group::dp}, {normal(t, {100, 33}), normal(t, {7})});
  std::vector<std::pair<int, int>> shapes{{5, 7}};
  std::vector<std::int64_t> flat_rows{7};
  if (num_ranks > 1) {
    add(Op::all_reduce, "", {.group = Group::dp}, {normal(t, {1 << 18}), normal(t, {})});
    shapes.insert(shapes.end(), {{5, 64}, {64, 48}, {200, 48}});
    flat_rows.push_back(64);
  }
  for (const auto& [rows, columns] : shapes) {
    const CollectiveAttrs by_columns{.placement = shard(1, even_cut(columns, num_ranks)),
                                     .whole = {rows, columns}};
    const CaseInput part = normal(t, local_shape(by_columns.whole, by_columns.placement));
    const CaseInput whole = normal(t, by_columns.whole);
    add(Op::all_gather, "", by_columns, {part});
    add(Op::reduce_scatter, "", by_columns, {whole});
    if (num_ranks > 1) add(Op::shard_slice, "", by_columns, {whole});
  }
  if (num_ranks > 1) add(Op::keep_first, "", {.whole = {5, 7}}, {normal(t, {5, 7})});
  for (const std::int64_t rows : flat_rows) {
    add(Op::reduce_scatter_flat, "", {.group = Group::dp}, {normal(t, {rows, 3}), normal(t, {2 * rows, 5})});
    add(Op::all_gather_flat, "", {.group = Group::dp}, {normal(t, {rows, 3}), normal(t, {2 * rows, 5})});
  }
}

void add_cut_vocabulary(std::vector<OpCase>& cases, DType t, std::int64_t words, std::int64_t width) {
  const std::int64_t here = (words + 1) / 2, rows = 50;
  const CutRange cut{true, Axis::tp, words, 2};
  const CaseInput ids = integers({1, rows}, 0, words), table = normal(t, {here, width}, 0.1);
  cases.push_back({Op::embedding, "cut", EmbeddingAttrs{cut}, {table, ids}, 0, kTwoTp});
  cases.push_back({Op::embedding_grad,
                   "cut",
                   EmbeddingAttrs{cut},
                   {normal(DType::f32, {here, width}), ids, normal(t, {1, rows, width})},
                   sum_bound(DType::f32),
                   kTwoTp});
  const LinearCrossEntropyAttrs attrs{.chunk_rows = 20, .rows = rows, .vocabulary = cut};
  // Each rank draws operands and targets of its own: the same function of both on every device, if no real
  // loss.
  std::vector<CaseInput> inputs{normal(t, {rows, width}), table, integers({rows}, -1, words),
                                uniform(DType::f32, {}, 0.5, 1)};
  cases.push_back({Op::linear_cross_entropy, "cut", attrs, inputs, loss_bound(t), kTwoTp});
  inputs.push_back(normal(DType::f32, {here, width}));
  cases.push_back(
      {Op::linear_cross_entropy_grad, "cut", attrs, inputs, t == DType::bf16 ? 2e-2 : sum_bound(t), kTwoTp});
}

void add_cut_sequences(std::vector<OpCase>& cases, DType t) {
  const CutRange cut{true, Axis::tp, 99, 2};  // the second rank's last position is padding
  const CaseInput x = normal(t, {3, 50, 33}), key = integers({4}, 100'000, 2'000'000'000);
  const AddPositionsAttrs positions{cut};
  cases.push_back({Op::add_positions, "cut", positions, {x, normal(t, {99, 33})}, element_bound(t), kTwoTp});
  cases.push_back({Op::add_positions_grad,
                   "cut",
                   positions,
                   {normal(DType::f32, {99, 33}), x},
                   sum_bound(DType::f32),
                   kTwoTp});
  const DropoutAttrs attrs{.rate = 0.2, .stream = 3, .cut_dim = 1, .cut = cut};
  cases.push_back({Op::dropout_add, "cut", attrs, {x, key, x}, element_bound(t), kTwoTp});
  cases.push_back({Op::dropout_grad, "cut", attrs, {normal(t, {2, 50, 64}), key}, element_bound(t), kTwoTp});
  AttentionAttrs heads{.heads = {2, 1, 32}, .scale = 0.2, .dropout = 0.3, .stream = 5};
  heads.head_range = {true, Axis::tp, 4, 2};
  const CaseInput qkv = normal(t, {3, 50, heads.heads.qkv_columns()});
  cases.push_back({Op::attention,
                   "cut, dropout",
                   heads,
                   {qkv, integers({4}, 0, 2'000'000)},
                   t == DType::bf16 ? 2e-2 : 2e-5,
                   kTwoTp});
}

void add_cut_updates(std::vector<OpCase>& cases, DType t) {
  const FlatRange range{true, Axis::dp, 2};
  const Shape whole{7, 9}, state{32};
  std::vector<CaseInput> inputs{normal(t, whole),
                                normal(DType::f32, whole),
                                normal(DType::f32, state, 0.1),
                                uniform(DType::f32, state, 0, 0.1),
                                uniform(DType::f32, {}, 1e-3, 2e-3),
                                integers({}, 3, 400),
                                uniform(DType::f32, {}, 0.5, 1)};
  if (t == DType::bf16) inputs.push_back({{DType::i16, state}, CaseInput::Fill::integer, -32768, 32768});
  AdamWAttrs attrs{0.9, 0.95, 1e-8, 0.1};
  attrs.range = range;
  cases.push_back({Op::adamw, "range", attrs, std::move(inputs), element_bound(t), kTwoDp});
  cases.push_back(
      {Op::sum_squares, "range", SumSquaresAttrs{.range = range}, {normal(t, whole)}, 1e-6, kTwoDp});
}

}  // namespace

void add_rank_cases(std::vector<OpCase>& cases) {
  for (const DType t : kCaseTypes) {
    for (const int num_ranks : {1, 2, 3, 4}) add_collectives(cases, t, num_ranks);
    add_cut_vocabulary(cases, t, 101, 33);
    add_cut_vocabulary(cases, t, 128, 64);
    add_cut_vocabulary(cases, t, 50257, 64);
    add_cut_sequences(cases, t);
    add_cut_updates(cases, t);
  }
  // A key head that both ranks hold: its gradients are added up. Accumulators are fp32.
  const Block shared{.size = 4, .pieces = 1, .held = 1}, own{.size = 6, .pieces = 2, .held = 1};
  const CollectiveAttrs copies{
      .num_ranks = 2, .axis_ranks = 2, .placement = shard(0, {own, shared}), .whole = {10, 5}};
  cases.push_back({Op::reduce_copies, "", copies, {normal(DType::f32, {7, 5})}, 0, kTwoTp});
  const SumSquaresAttrs squares{
      .copies = shard(0, {own, shared}), .copies_axis = Axis::tp, .copies_ranks = 2, .whole = {10, 5}};
  cases.push_back({Op::sum_squares, "copies", squares, {normal(DType::f32, {7, 5})}, 1e-6, kTwoTp});
}

}  // namespace tessera
