// Cuts against every possible cut, and against those a person would expect.
#include "tessera/pipeline/stage_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pipeline/error_of.h"

namespace tessera {
namespace {

LayerCosts equal_layers(int count, std::int64_t first_extra = 0, std::int64_t last_extra = 0) {
  return {std::vector<std::int64_t>(static_cast<std::size_t>(count), 10), first_extra, last_extra};
}

// What makes a cut good, in order of weight; smaller is better.
struct Merit {
  std::int64_t maximum = 0;
  std::int64_t squares = 0;
  std::vector<int> counts;

  auto operator<=>(const Merit&) const = default;
};

Merit merit_of(const LayerCosts& costs, const std::vector<int>& counts) {
  Merit merit{.counts = counts};
  int at = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    std::int64_t cost = s == 0 ? costs.first_extra : 0;
    if (s + 1 == counts.size()) cost += costs.last_extra;
    for (int i = 0; i < counts[s]; ++i) cost += costs.layers[static_cast<std::size_t>(at++)];
    merit.maximum = std::max(merit.maximum, cost);
    merit.squares += cost * cost;
  }
  return merit;
}

// Tries every cut of `layers_left` into `stages_left` that begins with `counts`.
void try_all(const LayerCosts& costs, int layers_left, int stages_left, std::vector<int>& counts,
             Merit& best) {
  if (stages_left == 0) {
    if (layers_left == 0) {
      const Merit merit = merit_of(costs, counts);
      if (best.counts.empty() || merit < best) best = merit;
    }
    return;
  }
  for (int n = 1; n <= layers_left; ++n) {
    counts.push_back(n);
    try_all(costs, layers_left - n, stages_left - 1, counts, best);
    counts.pop_back();
  }
}

TEST(StageCut, IsTheBestOfAllCuts) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const int num_layers = 1 + static_cast<int>(random() % 11);
    const int num_stages = 1 + static_cast<int>(random() % static_cast<unsigned>(num_layers));
    const unsigned range = trial % 2 == 0 ? 3 : 100;  // few values make many ties
    const auto draw = [&](unsigned below) { return static_cast<std::int64_t>(random() % below); };
    LayerCosts costs{.first_extra = draw(20), .last_extra = draw(40)};
    for (int i = 0; i < num_layers; ++i) costs.layers.push_back(draw(range));
    Merit best;
    std::vector<int> counts;
    try_all(costs, num_layers, num_stages, counts, best);
    EXPECT_EQ(cut_by_cost(costs, num_stages), best.counts) << "trial " << trial;
  }
}

TEST(StageCut, EqualLayersAreSpreadEvenly) {
  EXPECT_EQ(cut_by_cost(equal_layers(96), 8), std::vector<int>(8, 12));
  EXPECT_EQ(cut_by_cost(equal_layers(10), 4), (std::vector<int>{2, 2, 3, 3}));
  EXPECT_EQ(cut_by_cost(equal_layers(8), 2, 2), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(cut_by_cost(equal_layers(3), 1), (std::vector<int>{3}));
}

TEST(StageCut, TheHeadTakesThePlaceOfLayers) {
  EXPECT_EQ(cut_by_cost(equal_layers(10, 0, 20), 4), (std::vector<int>{3, 3, 3, 1}));
  EXPECT_EQ(cut_by_cost(equal_layers(10, 10, 10), 4), (std::vector<int>{2, 3, 3, 2}));
}

// Squares of such costs overflow 64 bits.
TEST(StageCut, TakesCostsInFlops) {
  const LayerCosts costs{std::vector<std::int64_t>(96, 10'000'000'000'000'001), 7, 500'000'000'000'000'000};
  const std::vector<int> cut = cut_by_cost(costs, 4);
  EXPECT_EQ(cut, (std::vector<int>{31, 32, 32, 1}));
  EXPECT_EQ(stage_costs(costs, cut).back(), 510'000'000'000'000'001);
}

TEST(StageCut, StageCostsCountTheExtras) {
  EXPECT_EQ(stage_costs(equal_layers(5, 3, 4), std::vector<int>{2, 2, 1}),
            (std::vector<std::int64_t>{23, 20, 14}));
  EXPECT_EQ(stage_costs(equal_layers(2, 3, 4), std::vector<int>{2}), (std::vector<std::int64_t>{27}));
}

TEST(StageCut, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(error_of([] { cut_by_cost(equal_layers(6), 4, 2); }),
            "parallel.pp 4 with pipeline.chunks 2 makes 8 stages, but the model has only 6 layers");
  EXPECT_EQ(error_of([] {
              cut_by_cost({.layers = {1, -2}}, 1);
            }),
            "cost of a layer: found -2, expected at least 0");
}

TEST(StageCut, TakesAListAsGiven) {
  EXPECT_EQ(cut_as_given(std::vector<int>{3, 3, 2}, 8, 3), (std::vector<int>{3, 3, 2}));
  EXPECT_EQ(cut_as_given(std::vector<int>{1, 3, 2, 2}, 8, 2, 2), (std::vector<int>{1, 3, 2, 2}));
}

TEST(StageCut, RefusesAListThatDoesNotFit) {
  const auto message = [](std::vector<int> counts, int layers, int stages, int chunks) {
    return error_of([&] { cut_as_given(counts, layers, stages, chunks); });
  };
  EXPECT_EQ(message({4, 4}, 8, 2, 2),
            "pipeline.layers [4, 4]: found 2 entries, expected 4: parallel.pp 2 x pipeline.chunks 2");
  EXPECT_EQ(message({4, 5}, 8, 2, 1), "pipeline.layers [4, 5]: adds up to 9 layers, but the model has 8");
  EXPECT_EQ(message({8, 0}, 8, 2, 1), "pipeline.layers [8, 0]: stage 1 has 0 layers, expected at least 1");
  EXPECT_EQ(message({}, 8, 2, 1),
            "pipeline.layers []: found 0 entries, expected 2: parallel.pp 2 x pipeline.chunks 1");
}

}  // namespace
}  // namespace tessera
