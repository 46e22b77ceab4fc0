// Activation functions: silu, gelu (by the error function, or its tanh approximation, which GPT-2
// calls gelu_new), tanh, and swiglu, the gated pair of Llama: silu(gate) * up on a packed [gate | up].
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct GeluAttrs {
  bool tanh_approximation = false;
  void describe(AttrWriter& write) const { write("tanh", tanh_approximation); }
};

ValueId silu(Graph& graph, std::string name, ValueId x);
ValueId gelu(Graph& graph, std::string name, ValueId x, bool tanh_approximation);
ValueId tanh(Graph& graph, std::string name, ValueId x);
// gate_up[..., 2 F] -> [..., F]
ValueId swiglu(Graph& graph, std::string name, ValueId gate_up);

}  // namespace tessera
