// A graph for people: one line per node, or a Graphviz drawing.
#pragma once

#include <string>

#include "tessera/graph/graph.h"

namespace tessera {

// "forward  layers.0.norm = rms_norm(x, layers.0.norm.weight) eps=1e-05 -> f32[2,16,32]"
std::string dump_text(const Graph& graph);

// Input for `dot -Tsvg`: ops as boxes, coloured by phase; parameters as ellipses.
std::string dump_dot(const Graph& graph);

}  // namespace tessera
