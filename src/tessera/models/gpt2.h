// The GPT-2 family: learned positions, LayerNorm before each half of a block, gelu, biases everywhere,
// output projection tied to the embedding. GPT-3 as Megatron trains it is the same with gelu by erf and a
// vocabulary that is padded to a round number of rows.
#pragma once

#include "tessera/models/json_config.h"
#include "tessera/models/model.h"

namespace tessera {

struct Gpt2Config {
  std::int64_t vocab_size = 0;
  std::int64_t padded_vocab_size = 0;  // rows of the embedding; those beyond vocab_size are no words. 0: none
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_size = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-5;
  bool gelu_tanh = true;
  bool tie_embeddings = true;
  double init_std = 0.02;
  double embedding_dropout = 0.0;
  double residual_dropout = 0.0;
  double attention_dropout = 0.0;  // of probabilities
  double ffn_dropout = 0.0;        // behind the feed-forward's gelu: Megatron's

  std::int64_t embedding_rows() const { return padded_vocab_size > 0 ? padded_vocab_size : vocab_size; }
};

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config);
Gpt2Config read_gpt2_config(const JsonConfig& json);

}  // namespace tessera
