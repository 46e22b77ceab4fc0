#include "tessera/train/layout.h"

#include "tessera/ops/op_def.h"
#include "tessera/pipeline/stage_cut.h"

namespace tessera {

Layout resolved(Layout layout, int num_layers) {
  const int pp = layout.mesh.pp;
  TS_CHECK(pp <= num_layers, "parallel.pp = {} needs as many layers, the model has {}", pp, num_layers);
  if (layout.chunks == 0) {
    const bool two = layout.schedule == ScheduleKind::interleaved && pp > 1 && num_layers >= 2 * pp;
    layout.chunks = two ? 2 : 1;
  }
  TS_CHECK(layout.chunks == 1 || pp > 1, "pipeline.chunks = {} needs a pipeline, but parallel.pp is 1",
           layout.chunks);
  TS_CHECK(pp * layout.chunks <= num_layers,
           "parallel.pp = {} with pipeline.chunks = {} needs {} layers, the model has {}", pp, layout.chunks,
           pp * layout.chunks, num_layers);
  return layout;
}

std::vector<int> stages_of_layers(const Graph& whole, const Layout& layout) {
  TS_CHECK(layout.mesh.pp > 1 || layout.layers_per_stage.empty(),
           "pipeline.layers needs a pipeline, but parallel.pp is 1");
  if (layout.mesh.pp == 1) return {};
  const int num_layers = whole.num_layers();
  LayerCosts costs;
  costs.layers.assign(static_cast<std::size_t>(num_layers), 0);
  for (NodeId id : live_nodes(whole)) {
    const Node& node = whole.node(id);
    if (node.phase != Phase::forward && node.phase != Phase::backward) continue;
    const std::int64_t flops = node_cost(whole, node).flops;
    if (node.layer < 0) {
      costs.first_extra += flops;
    } else if (node.layer >= num_layers) {
      costs.last_extra += flops;
    } else {
      costs.layers[static_cast<std::size_t>(node.layer)] += flops;
    }
  }
  const std::vector<int> cut =
      layout.layers_per_stage.empty()
          ? cut_by_cost(costs, layout.mesh.pp, layout.chunks)
          : cut_as_given(layout.layers_per_stage, num_layers, layout.mesh.pp, layout.chunks);
  std::vector<int> stages;
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    stages.insert(stages.end(), static_cast<std::size_t>(cut[stage]), static_cast<int>(stage));
  }
  return stages;
}

Partitioned partition_layout(const Graph& whole, const Layout& layout, const std::vector<int>& stage_of_layer,
                             const std::vector<PlacedTensor>* weights) {
  PartitionOptions options{.mesh = layout.mesh, .sequence = layout.sequence, .zero1 = layout.zero1};
  options.bucket_bytes = layout.bucket_bytes;
  options.stage_of_layer = stage_of_layer;
  options.weights = weights;
  return partition(whole, options);
}

RankStages rank_stages(const Partitioned& partitioned, const Layout& layout,
                       const std::vector<int>& stage_of_layer, int pp_rank) {
  if (layout.mesh.pp == 1) return {partitioned.graph, std::vector<StageMessages>(1)};
  return cut_stages(partitioned.graph, stage_of_layer, layout.mesh.pp, layout.chunks, pp_rank);
}

}  // namespace tessera
