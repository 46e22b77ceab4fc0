#include "tessera/models/decoder.h"

#include "tessera/ops/embedding.h"

namespace tessera {

std::vector<Prediction> build_decoder(ModelBuilder& builder, const DecoderFrame& frame,
                                      const DecoderParts& parts, ValueId ids_bt) {
  const Shape table_shape{frame.rows, frame.hidden_size};
  const ValueId tokens_vd = builder.parameter("embed.weight", table_shape, normal_init(frame.init_std));
  ValueId x_btd = embedding(builder.graph(), "embed", tokens_vd, ids_bt);
  if (parts.embedded) x_btd = parts.embedded(x_btd);
  x_btd = parts.last_norm(stack_layers(builder, frame.layers, parts.block, x_btd));
  const ValueId head_vd = frame.tie_embeddings
                              ? tokens_vd
                              : builder.parameter("head.weight", table_shape, normal_init(frame.init_std));
  return {{.hidden = x_btd, .weight = head_vd, .words = frame.words}};
}

}  // namespace tessera
