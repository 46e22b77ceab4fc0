// The plain arithmetic ops: add (the second operand may lack leading dims: biases, positions), mul,
// scale by a constant, zeros, and sum_to, which adds a gradient to an accumulator of fewer dims.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct ScaleAttrs {
  double factor = 1.0;
  void describe(AttrWriter& write) const { write("factor", factor); }
};

struct ZerosAttrs {
  ValueType type;
  void describe(AttrWriter& write) const { write("type", type.text()); }
};

ValueId add(Graph& graph, std::string name, ValueId a, ValueId b);
ValueId mul(Graph& graph, std::string name, ValueId a, ValueId b);
ValueId scale(Graph& graph, std::string name, ValueId x, double factor);

// Cost of an op that touches every operand once and spends `flops_per_elem` on each output element.
Cost elementwise_cost(const Graph& graph, const Node& node, int flops_per_elem);

// True if `small` equals the innermost dims of `large`.
bool is_suffix(const Shape& small, const Shape& large);

}  // namespace tessera
