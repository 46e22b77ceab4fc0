#include <algorithm>

#include "tessera/ops/verify.h"
#include "tessera/plan/arena.h"
#include "tessera/plan/plan.h"
#include "tessera/plan/storage.h"

namespace tessera {
namespace {

// Lays the storages of one region one after the other; returns the bytes used.
std::int64_t lay_out(std::span<const Storage> storages, Region region, std::vector<std::int64_t>& offsets) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].region != region) continue;
    offsets[i] = at;
    at += align_up(storages[i].bytes);
  }
  return at;
}

// Packs one program's temporaries and workspaces; all programs start at offset 0.
std::int64_t pack_program(std::span<const Storage> storages, Phase phase, std::vector<Step>& steps, bool reuse,
                          std::vector<std::int64_t>& offsets) {
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> owners;
  const auto end = static_cast<std::int32_t>(steps.size());
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Storage& s = storages[i];
    if (s.region != Region::temporary || s.phase != phase) continue;
    lifetimes.push_back(reuse ? Lifetime{s.first, s.last, s.bytes} : Lifetime{0, end, s.bytes});
    owners.push_back(i);
  }
  const std::size_t num_values = lifetimes.size();
  for (std::int32_t s = 0; s < end; ++s) {
    const std::int64_t bytes = steps[static_cast<std::size_t>(s)].workspace_bytes;
    if (bytes > 0) lifetimes.push_back({s, s, bytes});
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

Plan compile(const Graph& graph, const WorkspaceFunction& workspace_bytes, const PlanOptions& options) {
  verify(graph);
  Plan plan;
  plan.num_slots = options.num_slots;
  for (NodeId id : live_nodes(graph)) {
    const Node& node = graph.node(id);
    plan.programs[static_cast<std::size_t>(node.phase)].push_back({id, 0, workspace_bytes(graph, node)});
  }
  const StorageMap map = assign_storage(graph, plan, options);
  std::vector<std::int64_t> offsets(map.storages.size(), 0);
  plan.persistent_bytes = lay_out(map.storages, Region::persistent, offsets);
  plan.kept_bytes = lay_out(map.storages, Region::kept, offsets);
  for (int p = 0; p < kNumPhases; ++p) {
    const std::int64_t bytes = pack_program(map.storages, static_cast<Phase>(p),
                                            plan.programs[static_cast<std::size_t>(p)], options.reuse_memory, offsets);
    plan.temporary_bytes = std::max(plan.temporary_bytes, bytes);
  }
  for (std::int32_t storage : map.of_value) {
    if (storage < 0) {
      plan.locations.push_back({});
    } else {
      const auto s = static_cast<std::size_t>(storage);
      plan.locations.push_back({map.storages[s].region, offsets[s]});
    }
  }
  return plan;
}

}  // namespace tessera
