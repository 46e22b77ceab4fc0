// Layout: how a run is spread over ranks: the mesh, what is cut on it, the pipeline. Data, made from a
// config; and what follows from it: the stages of the layers, and each rank's graph.
#pragma once

#include <vector>

#include "tessera/partition/partition.h"
#include "tessera/partition/stages.h"
#include "tessera/pipeline/schedule.h"

namespace tessera {

struct Layout {
  Mesh mesh;
  bool sequence = false;
  bool zero1 = false;
  std::int64_t bucket_bytes = std::int64_t{64} << 20;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 0;  // pipeline stages per rank; 0: 2 if interleaved and there are layers enough
  std::vector<int> layers_per_stage;  // empty: even by cost
  int num_micro_batches = 1;          // of each dp rank
};

// `layout` with its chunks filled in for a model of `num_layers`; refuses more stages than layers.
Layout resolved(Layout layout, int num_layers);

// The stage of every layer, cut by the layout's rule.
std::vector<int> stages_of_layers(const Graph& whole, const Layout& layout);

// The graph partitioned over dp and tp, the same for all ranks. `weights`: the placements of a training
// graph whose weights this graph shares, or null.
Partitioned partition_layout(const Graph& whole, const Layout& layout, const std::vector<int>& stage_of_layer,
                             const std::vector<PlacedTensor>* weights = nullptr);
// One pipeline rank's part of it.
RankStages rank_stages(const Partitioned& partitioned, const Layout& layout,
                       const std::vector<int>& stage_of_layer, int pp_rank);

}  // namespace tessera
