// Plan: a graph's step frozen: which nodes each program runs, in which order, and where every value
// lies. Made by compile(); run by the Executor; printed by `tessera plan`.
//
// Memory is three regions of one arena:
//   persistent  parameters, accumulators, optimizer state, constants, scalars, outputs that nothing else
//               keeps
//   kept        what backward needs of forward, once per slot (a slot holds one micro-batch in flight);
//               every chunk (a pipeline stage of this rank) has slots of its own
//   temporary   everything else; all programs share it, as only one runs at a time
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

enum class Region : std::uint8_t {
  none,  // the value is dead
  persistent,
  kept,
  temporary,
  external,  // a parameter or a cache that lies in another executor's arena
};

struct Location {
  Region region = Region::none;
  std::int64_t offset = 0;
  std::int32_t chunk = 0;  // of a kept value
};

struct Step {
  NodeId node = kNoNode;
  std::int64_t workspace_offset = 0;  // in the temporary region
  std::int64_t workspace_bytes = 0;
  bool fused = false;  // with the step before it: the device runs both as one (plan/fuse_steps.h)
  std::vector<ValueId> first_additions = {};  // accumulators to which it is the first to add
};

// A collective of the update program that may run in the backward program of a step's last micro-batch, as
// what it works on is final there (plan/early_collectives.h).
struct EarlyCollective {
  std::int32_t after = 0;  // this step of the backward program
  std::int32_t step = 0;   // of the update program
  bool operator==(const EarlyCollective&) const = default;
};

// The programs and slots of one pipeline stage. The init and update programs belong to chunk 0.
struct Chunk {
  std::array<std::vector<Step>, kNumPhases> programs;
  std::vector<EarlyCollective> early;  // in the order in which they run
  std::int64_t kept_bytes = 0;         // of one slot
  int num_slots = 1;
};

struct Plan {
  std::vector<Chunk> chunks;
  std::vector<Location> locations;  // by value
  std::int64_t persistent_bytes = 0;
  std::int64_t temporary_bytes = 0;

  const std::vector<Step>& program(Phase phase, int chunk = 0) const {
    return chunks[static_cast<std::size_t>(chunk)].programs[static_cast<std::size_t>(phase)];
  }
  int num_chunks() const { return static_cast<int>(chunks.size()); }
  // Of all slots of the chunks before `chunk`; without one, of all.
  std::int64_t kept_bytes_before(std::int32_t chunk) const;
  std::int64_t kept_bytes() const { return kept_bytes_before(static_cast<std::int32_t>(chunks.size())); }
  std::int64_t scratch_bytes() const { return kept_bytes() + temporary_bytes; }
  std::int64_t arena_bytes() const { return persistent_bytes + scratch_bytes(); }
};

// Scratch a node needs on the device the plan is for.
using WorkspaceFunction = std::function<std::int64_t(const Graph&, const Node&)>;

// Whether a device runs two nodes of one program as one.
using FusesFunction = std::function<bool(const Graph&, const Node& first, const Node& second)>;

struct PlanOptions {
  std::vector<int> num_slots = {1};  // of each chunk
  bool external_parameters = false;  // evaluation reads the weights where training keeps them
  bool external_caches = false;      // the two graphs of generation work on the same caches
  FusesFunction fuses = {};          // none: no pairs
  bool reuse_memory = true;          // off: every value has bytes of its own, to find who overwrites what
};

Plan compile(const Graph& graph, const WorkspaceFunction& workspace_bytes, const PlanOptions& options = {});

// One line per step: node, op, where its outputs lie. Two equal plans have equal text.
std::string dump_text(const Graph& graph, const Plan& plan);
// XXH3 of the graph's and the plan's text: the name of a compiled step.
std::uint64_t plan_hash(const Graph& graph, const Plan& plan);

}  // namespace tessera
