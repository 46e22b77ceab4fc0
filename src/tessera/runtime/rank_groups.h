// RankGroups: one rank's place on the mesh and its communicators, one per group of ranks. Made by whoever
// starts the ranks, from the communicator of all of them; the kernels of collectives use it through their
// call, and so do those that must know which part of a cut dim is theirs.
#pragma once

#include <array>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/graph/mesh.h"

namespace tessera {

class RankGroups {
 public:
  // Collective over the world, whose ranks are those of the mesh. `head_copies`: ranks that share key and
  // value heads.
  RankGroups(Communicator& world, const Mesh& mesh, int head_copies = 1);

  const Mesh& mesh() const { return mesh_; }
  const Coordinates& at() const { return at_; }
  Communicator& world() const { return world_; }
  Communicator& group(Group group) const;

 private:
  Communicator& world_;
  Mesh mesh_;
  Coordinates at_;
  std::array<std::unique_ptr<Communicator>, kNumGroups> groups_;  // null where it would have one rank
};

}  // namespace tessera
