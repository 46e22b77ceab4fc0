// Which part of a cut tensor is this rank's: what the kernels of shards ask, on every backend.
#pragma once

#include <algorithm>

#include "tessera/ops/cut_range.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/rank_groups.h"

namespace tessera {

inline int coordinate(const KernelCall& call, Axis axis) {
  return call.ranks == nullptr ? 0 : call.ranks->at().at(axis);
}

// First index of this rank's part of a dim that has `local` indices here; 0 if it is not cut.
inline std::int64_t first_index(const KernelCall& call, const CutRange& cut, std::int64_t local) {
  return cut.cut ? coordinate(call, cut.axis) * local : 0;
}

struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// This rank's range of `num_elems` elements; all of them if there is no cut.
inline ElementRange own_range(const KernelCall& call, const FlatRange& range, std::int64_t num_elems) {
  if (!range.cut) return {0, num_elems};
  const std::int64_t part = (num_elems + range.num_ranks - 1) / range.num_ranks;
  const std::int64_t begin = std::min(num_elems, coordinate(call, range.axis) % range.num_ranks * part);
  return {begin, std::min(num_elems, begin + part)};
}

// The part of it that this rank counts in a sum over the axis: ranks with the same range share it out.
inline ElementRange counted_range(const KernelCall& call, const FlatRange& range, std::int64_t num_elems) {
  const ElementRange own = own_range(call, range, num_elems);
  if (!range.cut || range.num_groups == 1) return own;
  const std::int64_t part = (own.size() + range.num_groups - 1) / range.num_groups;
  const std::int64_t begin =
      std::min(own.end, own.begin + coordinate(call, range.axis) / range.num_ranks * part);
  return {begin, std::min(own.end, begin + part)};
}

}  // namespace tessera
