// Which pipeline stage a layer, and with it a parameter, belongs to. `stage_of_layer` comes from the
// layout; empty: there is one stage. Used by partition() and by StageMap.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

// The stage of a node before, in or after the layers.
int stage_of(std::int32_t layer, const std::vector<int>& stage_of_layer);

// The stages whose live nodes read each parameter, ascending: on others it does not lie.
std::map<std::string, std::vector<int>> parameter_stages(const Graph& graph,
                                                         const std::vector<int>& stage_of_layer);

// "moment1.embed.weight" -> "embed.weight": state is named after its parameter.
std::string parameter_of_state(const Value& state);

}  // namespace tessera
