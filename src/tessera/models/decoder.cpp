#include "tessera/models/decoder.h"

#include "tessera/ops/embedding.h"

namespace tessera {

ValueId build_layers(ModelBuilder& builder, std::int64_t num_layers,
                     const std::function<ValueId(const std::string& name, ValueId x_btd)>& block,
                     ValueId x_btd) {
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    builder.graph().set_layer(layer);
    x_btd = block("layers." + std::to_string(layer), x_btd);
  }
  builder.graph().set_layer(static_cast<std::int32_t>(num_layers));
  return x_btd;
}

CausalOutputs build_decoder(ModelBuilder& builder, const DecoderFrame& frame, const DecoderParts& parts,
                            ValueId ids_bt) {
  const Shape table_shape{frame.vocab_size, frame.hidden_size};
  const ValueId tokens_vd = builder.parameter("embed.weight", table_shape, normal_init(frame.init_std));
  ValueId x_btd = embedding(builder.graph(), "embed", tokens_vd, ids_bt);
  if (parts.embedded) x_btd = parts.embedded(x_btd);
  x_btd = parts.last_norm(build_layers(builder, frame.layers, parts.block, x_btd));
  const ValueId head_vd = frame.tie_embeddings
                              ? tokens_vd
                              : builder.parameter("head.weight", table_shape, normal_init(frame.init_std));
  return {x_btd, head_vd};
}

}  // namespace tessera
