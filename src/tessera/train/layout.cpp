#include "tessera/train/layout.h"

#include <algorithm>
#include <cmath>

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

namespace {

// In flops, or in as many together as keep the sum within 53 bits, which doubles count one by one.
LayerCosts layer_costs(const Graph& whole) {
  const auto num_layers = static_cast<std::size_t>(whole.num_layers());
  std::vector<double> layers(num_layers, 0.0);
  double first = 0, last = 0, all = 0;
  for (NodeId id : live_nodes(whole)) {
    const Node& node = whole.node(id);
    if (node.phase != Phase::forward && node.phase != Phase::backward) continue;
    const double flops = node_cost(whole, node).flops;
    const auto layer = static_cast<std::size_t>(std::max(0, node.layer));
    (node.layer < 0 ? first : layer >= num_layers ? last : layers[layer]) += flops;
    all += flops;
  }
  const double unit = std::exp2(std::max(0, std::ilogb(std::max(1.0, all)) - 52));
  const auto count = [&](double flops) { return std::llround(flops / unit); };
  LayerCosts costs{{}, count(first), count(last)};
  for (const double flops : layers) costs.layers.push_back(count(flops));
  return costs;
}

}  // namespace

std::vector<int> stages_of_layers(const Graph& whole, const Layout& layout) {
  TS_CHECK(layout.mesh.pp > 1 || layout.layers_per_stage.empty(),
           "pipeline.layers needs a pipeline, but parallel.pp is 1");
  if (layout.mesh.pp == 1) return {};
  const int num_layers = whole.num_layers();
  const LayerCosts costs = layer_costs(whole);
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
