// Placed: a tensor's placement on every axis of the mesh, and what a rank holds of it.
#pragma once

#include <array>

#include "tessera/graph/graph.h"
#include "tessera/graph/placement.h"

namespace tessera {

struct Placed {
  std::array<Placement, kNumAxes> axes;

  Placement& on(Axis axis) { return axes[static_cast<std::size_t>(axis)]; }
  const Placement& on(Axis axis) const { return axes[static_cast<std::size_t>(axis)]; }
  bool operator==(const Placed&) const = default;
};

inline constexpr Axis kCutAxes[] = {Axis::dp, Axis::tp};  // pp cuts the graph, not tensors

// What a rank holds of a tensor; a compact flat shard is a stretch of elements.
inline Shape local_shape(const Shape& whole, const Placed& placed) {
  Shape local = whole;
  for (Axis axis : kCutAxes) local = local_shape(local, placed.on(axis));
  return local;
}

// A tensor that outlives a step, whole and as the ranks have it. Whoever reads or writes files goes by it.
struct PlacedTensor {
  std::string name;
  ValueType whole;
  Role role = Role::parameter;
  Placed placed;
  bool tied = false;     // lies on the first and the last pipeline stage
  bool compact = false;  // flat on dp, and stored as the range alone (optimizer state under ZeRO-1)
};

}  // namespace tessera
