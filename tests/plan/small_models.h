// Models small enough to train in a test, with everything their families have.
#pragma once

#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"

namespace tessera {

inline std::unique_ptr<Model> small_llama() {
  return make_llama({.vocab_size = 61,
                     .hidden_size = 32,
                     .layers = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .ffn_size = 48,
                     .max_positions = 4096});
}

inline std::unique_ptr<Model> small_gpt2() {
  return make_gpt2({.vocab_size = 61,
                    .hidden_size = 32,
                    .layers = 2,
                    .heads = 4,
                    .ffn_size = 128,
                    .max_positions = 64,
                    .embedding_dropout = 0.1,
                    .residual_dropout = 0.1});
}

}  // namespace tessera
