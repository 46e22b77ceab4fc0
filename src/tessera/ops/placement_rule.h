// PlacementRule: how placements flow through an op, stated beside its shape rule. Read by partition/.
//
// A rule names the dims of the operands with letters and lists the letters that may be cut:
//
//   linear   "x:...k w:nk b+:n -> y:...n"   cuts "nk."
//
// Cutting n gives each rank some rows of w and b and those columns of y; x must be whole. Cutting k, which
// y lacks, leaves a term of a sum on every rank: y is partial. '.' is any dim of "...", the leading dims,
// which are matched from the right where operands have fewer. Marks after an operand's name:
//
//   +    added once: where the output is partial, it counts on one rank only (a bias)
//   ^    an accumulator: partial when the dim that is cut is summed into it
//   =v   whole although it lacks v: the op itself exchanges what it needs (the loss of a cut vocabulary)
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/placement.h"

namespace tessera {

// A node as a placement rule sees it: whole shapes, one axis of the mesh.
struct PlacementCall {
  const Node& node;
  std::span<const ValueType> inputs, outputs;
  Axis axis = Axis::tp;
  int num_ranks = 1;
  std::span<const Placement* const> current = {};  // of the inputs; null: to be decided here
  std::vector<Block> wanted = {};  // how readers want the last dim of output 0 cut; empty: no wish
  int flat_ranks = 0;              // of the axis that share the ranges of a flat shard; 0: all
};

// One way to run a node on an axis.
struct Strategy {
  std::vector<Placement> inputs, outputs;
  char letter = 0;  // what is cut: a letter of the rule, '.' with the dim of input 0, 'F' flat, 0 nothing
  int dim = 0;
};

struct PlacementRule {
  std::string_view operands = {};
  std::string_view cuts = {};     // in order of preference
  std::string_view tp_cuts = {};  // those of them that tp alone may cut
  bool sums = false;              // partial operands give partial results: the op is linear in all of them
  bool flat = false;              // works on any range of the elements of its "..." operands
  // A rank's part is one stretch of the cut dim, however the neighbours have packed it: local_attrs say where
  // it begins.
  bool one_stretch = false;
  bool counts_copies_once =
      false;  // sums over pieces that several ranks hold are right: local_attrs see to it
  // The operands where they depend on the attributes.
  std::string (*signature)(const PlacementCall&) = nullptr;
  // The blocks of a letter's dim in operand `i` (inputs, then outputs); empty: as the neighbours have it.
  std::vector<Block> (*blocks)(const PlacementCall&, char letter, std::size_t i) = nullptr;
  // The node's attributes on a shard; `attrs` may already be those of another axis.
  Attrs (*local_attrs)(const PlacementCall&, const Attrs& attrs, const Strategy&) = nullptr;
};

// All ways to run the node, the uncut one before those that cut it.
std::vector<Strategy> placement_strategies(const PlacementRule& rule, const PlacementCall& call);

// How the last dim of input 0 is packed, given how readers want output 0: empty if the op does not care.
std::vector<Block> wanted_blocks(const PlacementRule& rule, const PlacementCall& call);

}  // namespace tessera
