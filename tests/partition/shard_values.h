// Shards of tensors, cut and put together element by element: how the tests turn a whole tensor into what n
// ranks hold of it under a placement, and back. Paddings are zeros (-1 in ids), terms of sums are random.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend_cpu/host_tensor.h"
#include "tessera/graph/placement.h"

namespace tessera {

// Whose values are cut: a tensor and how it lies on the axis.
struct ShardedTensor {
  ValueType whole;
  Placement placement;
  bool compact = false;  // a flat shard that is stored as its range alone
  int num_ranks = 1;

  ValueType local() const {
    if (!compact) return {whole.dtype, local_shape(whole.shape, placement)};
    return {whole.dtype, Shape{flat_range_size(whole.shape.num_elems(), num_ranks)}};
  }
  template <class F>
  void for_each_run(int rank, F&& f) const {
    for_each_shard_run(whole.shape, placement, num_ranks, rank, [&](ShardRun run) {
      if (placement.is_flat() && !compact) run.local_offset = run.whole_offset;
      f(run);
    });
  }
};

// Whether every element is the sum over all places that hold it.
inline bool is_sum(const Placement& placement, int num_ranks) {
  return placement.is_partial() ||
         (placement.is_shard() && !placement.copies_agree && has_copies(placement, num_ranks));
}

// What every rank holds. What is no rank's business is NaN: outside of a flat range.
inline std::vector<std::vector<double>> cut_values(const ShardedTensor& tensor,
                                                   const std::vector<double>& whole, std::uint64_t stream) {
  const auto num_elems = static_cast<std::size_t>(tensor.local().shape.num_elems());
  const double outside = tensor.whole.dtype == DType::i32 ? -1.0
                         : tensor.placement.is_flat() && !tensor.compact
                             ? std::numeric_limits<double>::quiet_NaN()
                             : 0.0;
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(tensor.num_ranks));
  const bool sum = is_sum(tensor.placement, tensor.num_ranks);
  std::vector<double> rest = whole;  // what the terms so far leave
  std::vector<double*> last(whole.size(), nullptr);
  std::uint64_t drawn = 0;
  for (int rank = 0; rank < tensor.num_ranks; ++rank) {
    std::vector<double>& part = parts[static_cast<std::size_t>(rank)];
    part.assign(num_elems, outside);
    tensor.for_each_run(rank, [&](const ShardRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto from = static_cast<std::size_t>(run.whole_offset + i);
        double& to = part[static_cast<std::size_t>(run.local_offset + i)];
        to = sum ? philox_normal(99, stream, drawn++) : whole[from];
        rest[from] -= to;
        last[from] = &to;
      }
    });
  }
  // The last holder of an element makes the terms add up.
  for (std::size_t i = 0; sum && i < whole.size(); ++i) *last[i] += rest[i];
  return parts;
}

// Compares what the ranks hold with the whole: copies one by one, terms by their sum.
template <class Compare>
void expect_parts(const ShardedTensor& tensor, const std::vector<std::vector<double>>& parts,
                  const std::vector<double>& whole, const Compare& expect_equal) {
  const bool sum = is_sum(tensor.placement, tensor.num_ranks);
  std::vector<double> sums(whole.size(), 0.0);
  std::vector<bool> covered(whole.size(), false);
  for (int rank = 0; rank < tensor.num_ranks; ++rank) {
    const std::vector<double>& part = parts[static_cast<std::size_t>(rank)];
    tensor.for_each_run(rank, [&](const ShardRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto at = static_cast<std::size_t>(run.whole_offset + i);
        const double value = part[static_cast<std::size_t>(run.local_offset + i)];
        covered[at] = true;
        sums[at] += value;
        if (!sum) expect_equal(value, whole[at]);
      }
    });
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(covered[i]) << "no rank has element " << i;
    if (sum) expect_equal(sums[i], whole[i]);
  }
}

// Whether all that a rank holds beside its elements is zero: the padding of weights and gradients.
inline bool padding_is_zero(const ShardedTensor& tensor, int rank, const std::vector<double>& part) {
  std::vector<bool> held(part.size(), false);
  tensor.for_each_run(
      rank, [&](const ShardRun& run) { std::fill_n(held.begin() + run.local_offset, run.count, true); });
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (!held[i] && part[i] != 0.0) return false;
  }
  return true;
}

}  // namespace tessera
