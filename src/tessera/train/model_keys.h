// ModelKeys: the keys model.* of a run's config: the architecture, from a config.json or spelled out, and
// where the weights start.
//
// Part of RunConfig; turned into a Model by make_model. A key that a family cannot have is refused rather
// than passed over.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/size_limits.h"

namespace tessera {

class ConfigSchema;

enum class ModelTypeName { llama, gpt2, qwen2, gpt_neox, bert };
enum class ActivationName { silu, gelu_tanh, gelu_erf };

struct AttentionKeys {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 0;  // 0: hidden_size / heads
  double rope_theta = 10000.0;
  double rotary_fraction = 1.0;  // of gpt_neox: of each head
  bool qkv_bias = false;
  bool operator==(const AttentionKeys&) const = default;
};

// The keys model.* that stand in for a config.json; they stay at their defaults when there is one.
struct ArchitectureKeys {
  ModelTypeName type = ModelTypeName::llama;
  std::int64_t hidden_size = 0, layers = 0, ffn_size = 0;
  std::int64_t vocab_size = 0;      // 0: the tokenizer's
  std::int64_t vocab_multiple = 1;  // of gpt2: the embedding's rows are padded to a multiple of it
  std::int64_t max_positions = 0;   // 0: train.seq_len
  std::int64_t token_types = 2;     // of bert
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  bool parallel_residual = true;  // of gpt_neox
  ActivationName activation = ActivationName::silu;
  double dropout = 0.0;      // not of llama: of the embedding, both halves of a block, attention
  double ffn_dropout = 0.0;  // of gpt2: behind the feed-forward's activation
  AttentionKeys attention;
  bool operator==(const ArchitectureKeys&) const = default;
};

struct ModelKeys {
  std::string config;   // a Hugging Face config.json or its folder; empty: `architecture`
  std::string weights;  // a Hugging Face folder or a checkpoint; empty: initial weights from the seed
  double init_std = 0.02;
  ArchitectureKeys architecture;
  bool operator==(const ModelKeys&) const = default;
};

void declare_model(ConfigSchema& schema, ModelKeys& model);

// Refuses sizes that do not divide and keys that the family does not have, naming them.
void validate_model(const ModelKeys& model, std::int64_t seq_len);

}  // namespace tessera
