#include <algorithm>

#include "tessera/base/alignment.h"
#include "tessera/ops/verify.h"
#include "tessera/plan/arena.h"
#include "tessera/plan/early_collectives.h"
#include "tessera/plan/first_additions.h"
#include "tessera/plan/fuse_steps.h"
#include "tessera/plan/plan.h"
#include "tessera/plan/storage.h"

namespace tessera {
namespace {

// Lays the storages of one region one after the other; returns the bytes used. Kept ones go by chunk.
std::int64_t lay_out(std::span<const Storage> storages, Region region, std::int32_t chunk,
                     std::vector<std::int64_t>& offsets) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].region != region || (region == Region::kept && storages[i].program.chunk != chunk))
      continue;
    offsets[i] = at;
    at += align_up(storages[i].bytes);
  }
  return at;
}

// Packs one program's temporaries and workspaces; all programs start at offset 0.
std::int64_t pack_program(std::span<const Storage> storages, ProgramId program, std::vector<Step>& steps,
                          bool reuse, std::vector<std::int64_t>& offsets) {
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> owners;
  const auto end = static_cast<std::int32_t>(steps.size());
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Storage& s = storages[i];
    if (s.region != Region::temporary || s.program != program) continue;
    lifetimes.push_back(reuse ? Lifetime{s.first, s.last, s.bytes} : Lifetime{0, end, s.bytes});
    owners.push_back(i);
  }
  const std::size_t num_values = lifetimes.size();
  for (std::int32_t s = 0; s < end; ++s) {
    const std::int64_t bytes = steps[static_cast<std::size_t>(s)].workspace_bytes;
    const StepTime time = step_time(steps, static_cast<std::size_t>(s));
    if (bytes > 0) lifetimes.push_back({time.first, time.last, bytes});
  }
  const std::int64_t total = pack(lifetimes);
  for (std::size_t i = 0; i < num_values; ++i) offsets[owners[i]] = lifetimes[i].offset;
  std::size_t at = num_values;
  for (Step& step : steps) {
    if (step.workspace_bytes > 0) step.workspace_offset = lifetimes[at++].offset;
  }
  return total;
}

}  // namespace

std::int64_t Plan::kept_bytes_before(std::int32_t chunk) const {
  std::int64_t bytes = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(chunk); ++c)
    bytes += chunks[c].num_slots * chunks[c].kept_bytes;
  return bytes;
}

Plan compile(const Graph& graph, const WorkspaceFunction& workspace_bytes, const PlanOptions& options) {
  verify(graph);
  Plan plan;
  for (int num_slots : options.num_slots) plan.chunks.push_back({.num_slots = num_slots});
  for (NodeId id : live_nodes(graph)) {
    const Node& node = graph.node(id);
    TS_ASSERT(node.chunk < plan.num_chunks());
    Chunk& chunk = plan.chunks[static_cast<std::size_t>(node.chunk)];
    chunk.programs[static_cast<std::size_t>(node.phase)].push_back({id, 0, workspace_bytes(graph, node)});
  }
  if (options.fuses) {
    for (Chunk& chunk : plan.chunks) {
      for (std::vector<Step>& steps : chunk.programs) fuse_steps(graph, steps, options.fuses);
    }
  }
  find_first_additions(graph, plan.chunks);
  find_early_collectives(graph, plan.chunks);
  const StorageMap map = assign_storage(graph, plan, options);
  std::vector<std::int64_t> offsets(map.storages.size(), 0);
  plan.persistent_bytes = lay_out(map.storages, Region::persistent, 0, offsets);
  for (std::int32_t c = 0; c < plan.num_chunks(); ++c) {
    Chunk& chunk = plan.chunks[static_cast<std::size_t>(c)];
    chunk.kept_bytes = lay_out(map.storages, Region::kept, c, offsets);
    for (int p = 0; p < kNumPhases; ++p) {
      const std::int64_t bytes =
          pack_program(map.storages, {static_cast<Phase>(p), c}, chunk.programs[static_cast<std::size_t>(p)],
                       options.reuse_memory, offsets);
      plan.temporary_bytes = std::max(plan.temporary_bytes, bytes);
    }
  }
  for (std::int32_t storage : map.of_value) {
    if (storage < 0) {
      plan.locations.push_back({});
    } else {
      const auto s = static_cast<std::size_t>(storage);
      plan.locations.push_back({map.storages[s].region, offsets[s], map.storages[s].program.chunk});
    }
  }
  return plan;
}

}  // namespace tessera
