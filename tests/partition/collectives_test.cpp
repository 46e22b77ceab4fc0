// Every collective on local ranks: what each rank held of a tensor before and what it holds afterwards are
// the same tensor under two placements.
#include "tessera/ops/collectives.h"

#include <gtest/gtest.h>

#include <set>

#include "partition/node_run.h"
#include "partition/shard_values.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

struct Conversion {
  Op op{};
  Placement from, to;
  std::vector<Shape> wholes;  // of the tensors; several for a bucket
  Group group = Group::tp;
  int group_ranks = 0;  // 0: all of tp
};

class CollectivesTest : public testing::Test {
 protected:
  // dp for flat shards, tp for the rest.
  static bool on_dp(const Conversion& c) { return c.from.is_flat() || c.to.is_flat(); }

  void check(const Conversion& c, int num_ranks) {
    SCOPED_TRACE(fmt::format("{} of {} on {} ranks: {} to {}", op_name(c.op), c.wholes[0].text(), num_ranks,
                             c.from.text(), c.to.text()));
    CollectiveAttrs attrs{on_dp(c) ? Group::dp : c.group, c.group_ranks ? c.group_ranks : num_ranks,
                          num_ranks};
    attrs.placement = c.from.is_shard() ? c.from : c.to.is_shard() ? c.to : Placement{};
    attrs.whole = c.wholes[0];
    Graph graph;
    std::vector<ValueId> ids;
    std::vector<Values> wholes;
    std::vector<std::vector<Values>> parts;  // by tensor and rank
    for (const Shape& shape : c.wholes) {
      const ShardedTensor before{{DType::f64, shape}, c.from, false, num_ranks};
      wholes.push_back(cpu::random_tensor(DType::f64, shape, ids.size()).values());
      parts.push_back(cut_values(before, wholes.back(), ids.size()));
      ids.push_back(graph.add_input("in" + std::to_string(ids.size()), before.local(), Role::batch));
    }
    emit(graph, c.op, Phase::forward, "node", attrs, ids);
    std::vector<std::vector<Values>> results(static_cast<std::size_t>(num_ranks));
    run_local_ranks(num_ranks, [&](Communicator& world) {
      const Mesh mesh = on_dp(c) ? Mesh{.dp = num_ranks} : Mesh{.tp = num_ranks};
      const RankGroups ranks(world, mesh, {.head_copies = c.group_ranks ? c.group_ranks : 1});
      const auto device = make_cpu_device(1);
      std::vector<Values> mine;
      for (const auto& part : parts) mine.push_back(part[static_cast<std::size_t>(world.rank())]);
      results[static_cast<std::size_t>(world.rank())] = run_node(*device, graph, graph.node(0), mine, &ranks);
    });
    for (std::size_t t = 0; t < c.wholes.size(); ++t) {
      const ShardedTensor after{{DType::f64, c.wholes[t]}, c.to, false, num_ranks};
      std::vector<Values> held;
      for (const auto& rank : results) held.push_back(rank[t]);
      expect_parts(after, held, wholes[t],
                   [](double found, double wanted) { EXPECT_NEAR(found, wanted, 1e-13); });
      for (int rank = 0; c.to.is_shard() && rank < num_ranks; ++rank) {
        EXPECT_TRUE(padding_is_zero(after, rank, held[static_cast<std::size_t>(rank)]));
      }
    }
    covered_.insert(c.op);
  }

  std::set<Op> covered_;
};

std::vector<Placement> cuts_of(const Shape& shape, int num_ranks) {
  std::vector<Placement> cuts;
  for (int d = 0; d < shape.rank(); ++d) {
    cuts.push_back(shard(d, even_cut(shape[d], num_ranks)));
    const std::int64_t first = shape[d] / 2, rest = shape[d] - first;
    if (first > 0) cuts.push_back(shard(d, {{first, num_ranks, 1}, {rest, num_ranks, 1}}));
    if (first > 0)
      cuts.push_back(shard(d, {{first, num_ranks, 1}, {rest, num_ranks, 2}}));  // every piece twice
  }
  return cuts;
}

TEST_F(CollectivesTest, TurnOnePlacementIntoAnother) {
  for (const int num_ranks : {2, 3, 4}) {
    const std::vector<Shape> bucket = {Shape{5, 7}, Shape{1}, Shape{12, 4}};
    check({Op::all_reduce, partial_sum(), replicated(), bucket}, num_ranks);
    check({Op::keep_first, replicated(), partial_sum(), {Shape{5, 7}}}, num_ranks);
    check({Op::reduce_scatter_flat, partial_sum(), flat_shard(), bucket}, num_ranks);
    check({Op::all_gather_flat, flat_shard(), replicated(), bucket}, num_ranks);
    for (const Shape& shape : {Shape{5, 7, 3}, Shape{12, 12, 2}, Shape{4}}) {
      for (const Placement& cut : cuts_of(shape, num_ranks)) {
        check({Op::all_gather, cut, replicated(), {shape}}, num_ranks);
        check({Op::shard_slice, replicated(), cut, {shape}}, num_ranks);
        if (!has_copies(cut, num_ranks)) check({Op::reduce_scatter, partial_sum(), cut, {shape}}, num_ranks);
      }
    }
  }
  // Gradients of shared heads: neighbours add up among themselves; on three ranks that share two heads, the
  // one in the middle has a part of both.
  const auto copies = [](const Block& shared, bool agree) {
    Placement placement = shard(0, {{12, 4, 1}, shared, shared});
    placement.copies_agree = agree;
    return placement;
  };
  const Block pairs{6, 2, 1};
  check({Op::reduce_copies, copies(pairs, false), copies(pairs, true), {Shape{24, 5}}, Group::heads, 2}, 4);
  for (const Block& shared : {Block{6, 2, 2}, Block{6, 2, 1}}) {
    check({Op::reduce_copies, copies(shared, false), copies(shared, true), {Shape{24, 5}}}, 4);
  }
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<Op>(i);
    const bool collective = op >= Op::all_reduce && op <= Op::all_gather_flat;
    EXPECT_EQ(covered_.contains(op), collective) << op_name(op);
  }
}

TEST_F(CollectivesTest, CopiesOfThreeRanksThatShareTwoHeads) {
  Placement before = shard(0, {{6, 3, 1}, {4, 2, 2}, {4, 2, 2}}), after = before;
  before.copies_agree = false;
  check({Op::reduce_copies, before, after, {Shape{14, 3}}}, 3);
}

// What ranks hold of a tensor, each a term: summed in fp32 in the order of the ranks and rounded once.
void expect_copies_rounded_once(const Placement& terms, Group group, int group_ranks, int num_ranks) {
  const ShardedTensor tensor{{DType::bf16, Shape{12, 5}}, terms, false, num_ranks};
  std::vector<Values> parts;
  std::vector<float> sums(static_cast<std::size_t>(tensor.whole.shape.num_elems()), 0.0f);
  for (int rank = 0; rank < num_ranks; ++rank) {
    parts.push_back(
        cpu::random_tensor(DType::bf16, tensor.local().shape, static_cast<std::uint64_t>(rank)).values());
    tensor.for_each_run(rank, [&](const ShardRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        sums[static_cast<std::size_t>(run.whole_offset + i)] +=
            static_cast<float>(parts.back()[static_cast<std::size_t>(run.local_offset + i)]);
      }
    });
  }
  Graph graph;
  const ValueId in = graph.add_input("in", tensor.local(), Role::batch);
  emit(graph, Op::reduce_copies, Phase::update, "node",
       CollectiveAttrs{.group = group,
                       .num_ranks = group_ranks,
                       .axis_ranks = num_ranks,
                       .placement = terms,
                       .whole = tensor.whole.shape},
       {in});
  run_local_ranks(num_ranks, [&](Communicator& world) {
    const RankGroups ranks(world, {.tp = num_ranks},
                           {.head_copies = group == Group::heads ? group_ranks : 1});
    const auto device = make_cpu_device(1);
    const Values found =
        run_node(*device, graph, graph.node(0), {parts[static_cast<std::size_t>(world.rank())]}, &ranks)[0];
    tensor.for_each_run(world.rank(), [&](const ShardRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const Bf16 wanted(sums[static_cast<std::size_t>(run.whole_offset + i)]);
        EXPECT_EQ(found[static_cast<std::size_t>(run.local_offset + i)],
                  static_cast<double>(static_cast<float>(wanted)))
            << "rank " << world.rank() << ", element " << run.whole_offset + i;
      }
    });
  });
}

TEST_F(CollectivesTest, CopiesInBf16) {
  const auto terms = [](const Block& block) {
    Placement placement = shard(0, {block});
    placement.copies_agree = false;
    return placement;
  };
  expect_copies_rounded_once(terms({12, 2, 1}), Group::heads, 3, 6);
  expect_copies_rounded_once(terms({12, 2, 2}), Group::tp, 3,
                             3);  // the rank in the middle has a part of both
  expect_copies_rounded_once(terms({12, 2, 2}), Group::tp, 4, 4);
}

}  // namespace
}  // namespace tessera
