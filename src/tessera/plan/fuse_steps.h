// fuse_steps: brings together the nodes that a device runs as one: a product with its activation, an addition
// with the norm that reads it. The pair stays two nodes of the graph and two steps of the program; the plan
// only says that they happen at the same time. Called by compile().
#pragma once

#include <functional>
#include <vector>

#include "tessera/plan/plan.h"

namespace tessera {

// Moves the second node of each pair up to its first, where nothing in between objects.
void fuse_steps(const Graph& graph, std::vector<Step>& steps, const FusesFunction& fuses);

}  // namespace tessera
