// Mesh: the ranks of a run laid out as pp x dp x tp, tp contiguous, so that the ranks that talk most
// are neighbours. A value: every pass takes it as an argument, and none knows which rank it runs on.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

enum class Axis : std::uint8_t {
  pp,  // pipeline stages
  dp,  // copies of the model, each with its part of the batch
  tp,  // parts of every layer
};
inline constexpr int kNumAxes = 3;

constexpr std::string_view axis_name(Axis axis) {
  constexpr std::string_view names[] = {"pp", "dp", "tp"};
  return names[static_cast<int>(axis)];
}

// Ranks that a collective joins: those of one axis, or
enum class Group : std::uint8_t {
  pp,
  dp,
  tp,
  ends,    // the first and the last pipeline stage, which share a tied embedding
  heads,   // neighbours on tp that share key and value heads
  ranges,  // neighbours on dp that share one copy of the optimizer state, each with a range of it (ZeRO-1)
  copies,  // ranks of dp with the same range
};
inline constexpr int kNumGroups = 7;

constexpr std::string_view group_name(Group group) {
  constexpr std::string_view names[] = {"pp", "dp", "tp", "ends", "heads", "ranges", "copies"};
  return names[static_cast<int>(group)];
}
constexpr Group group_of(Axis axis) {
  return static_cast<Group>(axis);
}

struct Mesh {
  int pp = 1, dp = 1, tp = 1;
  int zero1_group = 0;  // ranks of dp that share one copy of the optimizer state; 0: all

  // dp is two axes: groups, and the ranks of a group, which are neighbours.
  int ranges() const { return zero1_group > 0 ? zero1_group : dp; }
  bool has_copies() const { return ranges() < dp; }
  int size(Axis axis) const { return axis == Axis::pp ? pp : axis == Axis::dp ? dp : tp; }
  int num_ranks() const { return pp * dp * tp; }
  bool operator==(const Mesh&) const = default;
};

// Where a rank stands on the mesh.
struct Coordinates {
  int pp = 0, dp = 0, tp = 0;

  int at(Axis axis) const { return axis == Axis::pp ? pp : axis == Axis::dp ? dp : tp; }
  bool operator==(const Coordinates&) const = default;
};

inline Coordinates coordinates_of(const Mesh& mesh, int rank) {
  TS_ASSERT(rank >= 0 && rank < mesh.num_ranks());
  return {rank / (mesh.dp * mesh.tp), rank / mesh.tp % mesh.dp, rank % mesh.tp};
}

}  // namespace tessera
