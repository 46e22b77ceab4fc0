// Stage cut: how many layers each global stage gets, in the order of the layers. Computed from costs, or
// given by the user as pipeline.layers; read by partitioning, which cuts the graph there.
//
// With several chunks per rank the stages are in global order: first chunk 0 of all ranks, then chunk 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// In flops of one micro-batch, or in any one unit. Integers, so that equal cuts compare as equal.
struct LayerCosts {
  std::vector<std::int64_t> layers;
  std::int64_t first_extra = 0;  // the embedding, on the first stage
  std::int64_t last_extra = 0;   // the head and the loss, on the last stage
};

// The cut whose most expensive stage costs least. Among those, the most even one: the least sum of the
// stages' squared costs. Among those, fewer layers on earlier stages, because they hold the activations of
// more micro-batches. No stage is empty: fewer layers than stages is an Error.
std::vector<int> cut_by_cost(const LayerCosts& costs, int num_stages, int num_chunks = 1);

// What the user gave, checked: a count for every stage, none below 1, num_layers in all.
std::vector<int> cut_as_given(std::span<const int> layers_per_stage, int num_layers, int num_stages,
                              int num_chunks = 1);

// The cost of each stage of a cut.
std::vector<std::int64_t> stage_costs(const LayerCosts& costs, std::span<const int> layers_per_stage);

}  // namespace tessera
