// differentiate: appends the backward pass of a graph to it, node by node in reverse, by the gradient
// rules in ops/. Parameters get an accumulator each: a graph input "grad.<name>" that the backward
// program adds to, so that micro-batches, shared weights and the tied embedding all just add up.
#pragma once

#include <span>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

// Where the walk starts: a value and the gradient that flows into it.
struct GradientSeed {
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};

struct Gradients {
  // Read the loss here: a fused loss is computed again, together with its gradient. The sum of several.
  ValueId loss = kNoValue;
  std::vector<ParameterGradient> parameters;  // in the order of the graph's inputs
  std::vector<ValueId> wanted;                // gradients of the wanted values; kNoValue if none flows
};

// How the parameters' gradients are stored.
enum class GradientStorage : std::uint8_t {
  wide,              // as sums are, in fp32: any number of micro-batches add to them
  rounded_products,  // those of bf16 weights that only linear layers use in bf16: one product makes each
};

// Gradient of a scalar loss, or of the sum of several, with respect to every parameter.
Gradients differentiate(Graph& graph, ValueId loss);
Gradients differentiate(Graph& graph, std::span<const ValueId> losses,
                        GradientStorage storage = GradientStorage::wide);

// Vector-Jacobian product from given seeds, also with respect to the `wanted` non-parameter values.
Gradients differentiate(Graph& graph, std::span<const GradientSeed> seeds, std::span<const ValueId> wanted);

}  // namespace tessera
