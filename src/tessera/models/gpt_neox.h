// The GPT-NeoX family (Black et al., 2022; Pythia): LayerNorm, rotary positions on a part of each head,
// biases, gelu. Attention and feed-forward may read the same residual stream, side by side, or one after the
// other as in GPT-2.
#pragma once

#include "tessera/models/json_config.h"
#include "tessera/models/model.h"

namespace tessera {

struct GptNeoxConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_size = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-5;
  double rotary_fraction = 0.25;  // of each head; a whole, even number of its elements
  double rope_theta = 10000.0;
  bool parallel_residual = true;
  bool gelu_tanh = false;
  bool attention_bias = true;
  bool tie_embeddings = false;
  double init_std = 0.02;
  double dropout = 0.0;            // of the embedding and of both halves of a block
  double attention_dropout = 0.0;  // of probabilities

  std::int64_t head_dim() const { return hidden_size / heads; }
  // Rounded down, as transformers does.
  std::int64_t rotary_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim()) * rotary_fraction);
  }
};

std::unique_ptr<Model> make_gpt_neox(const GptNeoxConfig& config);
GptNeoxConfig read_gpt_neox_config(const JsonConfig& json);

}  // namespace tessera
