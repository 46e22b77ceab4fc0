// cut_stages: a partitioned graph becomes the graph of one pipeline rank: the nodes of its stages, what they
// receive as inputs, and what they send. Cut at layers; the update program goes with the parameters.
//
// A value that a later stage reads travels from neighbour to neighbour, and so do gradients on the way back.
// A parameter that two stages read lies on both, each with an accumulator of its own; partition() has put
// the sum of the two into the update program.
#pragma once

#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

// What one stage of a rank exchanges with its neighbours for every micro-batch, in the same order at both
// ends. Ids of the rank's graph.
struct StageMessages {
  std::vector<ValueId> receive_activation, send_activation;
  std::vector<ValueId> receive_gradient, send_gradient;
};

struct RankStages {
  Graph graph;                          // of all stages of the rank; node.chunk says which
  std::vector<StageMessages> messages;  // by chunk
};

// Rank `rank` of `num_ranks` holds the stages rank, num_ranks + rank, ... of `stage_of_layer`.
RankStages cut_stages(const Graph& graph, const std::vector<int>& stage_of_layer, int num_ranks,
                      int num_chunks, int rank);

// The input of chunk `chunk` that the whole graph calls `name`: every chunk has token ids of its own.
std::string chunk_input_name(std::string_view name, int chunk);

}  // namespace tessera
