// What the causal families have in common: a token table, blocks one after the other, a last norm, and an
// output projection that may be the token table again. A family says what its blocks are.
#pragma once

#include <functional>

#include "tessera/models/model.h"
#include "tessera/nn/layer_stack.h"

namespace tessera {

struct DecoderFrame {
  std::int64_t rows = 0;  // of the token table
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  bool tie_embeddings = false;
  double init_std = 0.02;
  std::int64_t words = 0;  // rows that are words, if not all are
};

struct DecoderParts {
  std::function<ValueId(ValueId x_btd)> embedded = {};  // what becomes of the tokens' rows; empty: nothing
  BuildBlock block;
  std::function<ValueId(ValueId x_btd)> last_norm;
};

std::vector<Prediction> build_decoder(ModelBuilder& builder, const DecoderFrame& frame,
                                      const DecoderParts& parts, ValueId ids_bt);

}  // namespace tessera
