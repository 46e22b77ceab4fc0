#include "tessera/pipeline/stage_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// Squared costs summed; flops of a large stage, squared, need more than 64 bits.
__extension__ typedef unsigned __int128 SquareSum;

// The total stays below this, so the sum of squares, at most its square, stays below SquareSum's largest.
constexpr std::int64_t kMaxTotal = std::int64_t{1} << 62;

class StageCosts {
 public:
  StageCosts(const LayerCosts& costs, int num_stages)
      : sums_(costs.layers.size() + 1, 0),
        first_extra_(costs.first_extra),
        last_extra_(costs.last_extra),
        num_stages_(num_stages) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), sums_.begin() + 1);
  }

  int num_layers() const { return static_cast<int>(sums_.size()) - 1; }
  int num_stages() const { return num_stages_; }

  // Of layers [begin, end) as that stage.
  std::int64_t cost(int stage, int begin, int end) const {
    return sums_[end] - sums_[begin] + (stage == 0 ? first_extra_ : 0) +
           (stage == num_stages_ - 1 ? last_extra_ : 0);
  }

  // The first layer of a stage that leaves a layer for each stage before and after it.
  int least_begin(int stage) const { return stage; }
  int last_begin(int stage) const { return stage == 0 ? 0 : num_layers() - (num_stages_ - stage); }
  // The layer after a stage's last.
  int least_end(int stage, int begin) const { return stage == num_stages_ - 1 ? num_layers() : begin + 1; }
  int last_end(int stage) const { return num_layers() - (num_stages_ - 1 - stage); }

 private:
  std::vector<std::int64_t> sums_;  // of the layers before
  std::int64_t first_extra_;
  std::int64_t last_extra_;
  int num_stages_;
};

// By layer: the least possible maximum over stages stage .. last when `stage` begins there; stage by stage
// from the last.
std::int64_t least_maximum(const StageCosts& stages) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> after(static_cast<std::size_t>(stages.num_layers()) + 1, kNever);
  after[stages.num_layers()] = 0;
  for (int stage = stages.num_stages() - 1; stage >= 0; --stage) {
    std::vector<std::int64_t> from(after.size(), kNever);
    for (int begin = stages.least_begin(stage); begin <= stages.last_begin(stage); ++begin) {
      for (int end = stages.least_end(stage, begin); end <= stages.last_end(stage); ++end) {
        const std::int64_t cost = stages.cost(stage, begin, end);
        if (cost >= from[begin]) break;  // later ends only cost more
        from[begin] = std::min(from[begin], std::max(cost, after[end]));
      }
    }
    after = std::move(from);
  }
  return after.front();
}

// The same walk for the sum of squares, under the maximum; the first of equal ends is the shorter stage.
std::vector<int> most_even(const StageCosts& stages, std::int64_t maximum) {
  constexpr SquareSum kNever = ~SquareSum{0};
  const auto num_ends = static_cast<std::size_t>(stages.num_layers()) + 1;
  std::vector<SquareSum> after(num_ends, kNever);
  after[stages.num_layers()] = 0;
  std::vector<std::vector<int>> ends(static_cast<std::size_t>(stages.num_stages()),
                                     std::vector<int>(num_ends, -1));
  for (int stage = stages.num_stages() - 1; stage >= 0; --stage) {
    std::vector<SquareSum> from(num_ends, kNever);
    for (int begin = stages.least_begin(stage); begin <= stages.last_begin(stage); ++begin) {
      for (int end = stages.least_end(stage, begin); end <= stages.last_end(stage); ++end) {
        const std::int64_t cost = stages.cost(stage, begin, end);
        if (cost > maximum) break;
        if (after[end] == kNever) continue;
        const SquareSum sum = static_cast<SquareSum>(cost) * static_cast<SquareSum>(cost) + after[end];
        if (sum >= from[begin]) continue;
        from[begin] = sum;
        ends[stage][begin] = end;
      }
    }
    after = std::move(from);
  }
  std::vector<int> layers_per_stage;
  int begin = 0;
  for (const std::vector<int>& end_of : ends) {
    layers_per_stage.push_back(end_of[begin] - begin);
    begin = end_of[begin];
  }
  return layers_per_stage;
}

void check_costs(const LayerCosts& costs) {
  std::int64_t total = 0;
  const auto add = [&](std::int64_t cost) {
    TS_CHECK(cost >= 0, "cost of a layer: found {}, expected at least 0", cost);
    TS_CHECK(cost <= kMaxTotal - total, "costs of layers: found more than {} in all, expected less",
             kMaxTotal);
    total += cost;
  };
  for (const std::int64_t cost : costs.layers) add(cost);
  add(costs.first_extra);
  add(costs.last_extra);
}

void check_num_stages(int num_layers, int num_stages, int num_chunks) {
  TS_CHECK(num_stages >= 1, "parallel.pp: found {}, expected at least 1", num_stages);
  TS_CHECK(num_chunks >= 1, "pipeline.chunks: found {}, expected at least 1", num_chunks);
  TS_CHECK(num_layers >= num_stages * num_chunks,
           "parallel.pp {} with pipeline.chunks {} makes {} stages, but the model has only {} layers",
           num_stages, num_chunks, num_stages * num_chunks, num_layers);
}

}  // namespace

std::vector<int> cut_by_cost(const LayerCosts& costs, int num_stages, int num_chunks) {
  check_num_stages(static_cast<int>(costs.layers.size()), num_stages, num_chunks);
  check_costs(costs);
  const StageCosts stages(costs, num_stages * num_chunks);
  return most_even(stages, least_maximum(stages));
}

std::vector<int> cut_as_given(std::span<const int> layers_per_stage, int num_layers, int num_stages,
                              int num_chunks) {
  check_num_stages(num_layers, num_stages, num_chunks);
  std::string given = "pipeline.layers [";
  for (const int count : layers_per_stage)
    given += fmt::format("{}{}", given.back() == '[' ? "" : ", ", count);
  given += ']';
  TS_CHECK(layers_per_stage.size() == static_cast<std::size_t>(num_stages * num_chunks),
           "{}: found {} entries, expected {}: parallel.pp {} x pipeline.chunks {}", given,
           layers_per_stage.size(), num_stages * num_chunks, num_stages, num_chunks);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < layers_per_stage.size(); ++i) {
    TS_CHECK(layers_per_stage[i] >= 1, "{}: stage {} has {} layers, expected at least 1", given, i,
             layers_per_stage[i]);
    total += layers_per_stage[i];
  }
  TS_CHECK(total == num_layers, "{}: adds up to {} layers, but the model has {}", given, total, num_layers);
  return {layers_per_stage.begin(), layers_per_stage.end()};
}

std::vector<std::int64_t> stage_costs(const LayerCosts& costs, std::span<const int> layers_per_stage) {
  const StageCosts stages(costs, static_cast<int>(layers_per_stage.size()));
  std::vector<std::int64_t> result;
  int begin = 0;
  for (const int count : layers_per_stage) {
    TS_ASSERT(count >= 0 && begin + count <= stages.num_layers());
    result.push_back(stages.cost(static_cast<int>(result.size()), begin, begin + count));
    begin += count;
  }
  TS_ASSERT(begin == stages.num_layers());
  return result;
}

}  // namespace tessera
