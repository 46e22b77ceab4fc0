#include "tessera/nn/layer_stack.h"

namespace tessera {

ValueId stack_layers(ModelBuilder& builder, std::int64_t num_layers, const BuildBlock& block, ValueId x) {
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    builder.graph().set_layer(layer);
    x = block("layers." + std::to_string(layer), x);
  }
  builder.graph().set_layer(static_cast<std::int32_t>(num_layers));
  return x;
}

}  // namespace tessera
