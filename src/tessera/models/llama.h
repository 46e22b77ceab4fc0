// The Llama family: RMSNorm, rotary positions, SwiGLU, grouped-query attention. With biases on the
// qkv projection it is Qwen2.
#pragma once

#include "tessera/models/json_config.h"
#include "tessera/models/model.h"

namespace tessera {

struct LlamaConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_size = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool tie_embeddings = false;
  bool qkv_bias = false;
  double init_std = 0.02;
  double attention_dropout = 0.0;  // of probabilities
};

std::unique_ptr<Model> make_llama(const LlamaConfig& config);
LlamaConfig read_llama_config(const JsonConfig& json);  // model_type llama or qwen2

}  // namespace tessera
