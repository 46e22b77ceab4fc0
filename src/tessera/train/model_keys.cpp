#include "tessera/train/model_keys.h"

#include "tessera/base/error.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

// Keys that describe the architecture; with model.config they must keep their defaults.
void declare_architecture(ConfigSchema& s, ArchitectureKeys& model) {
  AttentionKeys& attention = model.attention;
  s.choice("model.type", &model.type, "kind of model", {"llama", "gpt2", "qwen2", "gpt_neox", "bert"});
  s.integer("model.hidden_size", &model.hidden_size, "width of the residual stream",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.layers", &model.layers, "transformer blocks", {.min = 0, .max = kMaxLayers});
  s.integer("model.heads", &attention.heads, "query heads", {.min = 0, .max = kMaxWidth});
  s.integer("model.kv_heads", &attention.kv_heads, "key and value heads; 0: heads",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.head_dim", &attention.head_dim, "width of a head; 0: hidden_size / heads",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.ffn_size", &model.ffn_size, "inner width of the MLP", {.min = 0, .max = kMaxFfnWidth});
  s.integer("model.vocab_size", &model.vocab_size, "tokens; 0: the tokenizer's", {.min = 0, .max = kMaxIds});
  s.integer("model.vocab_multiple", &model.vocab_multiple,
            "gpt2: rows of the embedding are padded to a multiple of it; padding is never predicted",
            {.min = 1, .max = 1 << 20});
  s.integer("model.max_positions", &model.max_positions, "longest sequence; 0: train.seq_len",
            {.min = 0, .max = kMaxPositions});
  s.number("model.norm_eps", &model.norm_eps, "epsilon of the norms", kPositive);
  s.number("model.rope_theta", &attention.rope_theta, "base of the rotary angles", kPositive);
  s.number("model.rotary_fraction", &attention.rotary_fraction,
           "gpt_neox: share of each head's elements with rotary positions",
           {.min = 0, .max = 1, .above_min = true});
  s.boolean("model.parallel_residual", &model.parallel_residual,
            "gpt_neox: a block's halves read the same input, side by side; else one after the other");
  s.integer("model.token_types", &model.token_types, "bert: kinds of tokens, first or second sentence",
            {.min = 2, .max = kMaxIds});
  s.boolean("model.tie_embeddings", &model.tie_embeddings,
            "share the embedding with the output head; bert always does");
  s.choice("model.activation", &model.activation, "nonlinearity of the MLP",
           {"silu", "gelu_tanh", "gelu_erf"});
  s.number("model.dropout", &model.dropout,
           "not llama, qwen2: share of the embedding, of each block's halves and of attention that drops",
           {.min = 0, .max = 1, .below_max = true});
  s.number("model.ffn_dropout", &model.ffn_dropout,
           "gpt2: share that drops behind the feed-forward's activation, as in Megatron",
           {.min = 0, .max = 1, .below_max = true});
  s.boolean("model.qkv_bias", &attention.qkv_bias, "biases on the query, key and value projections");
}

void validate_inline_sizes(const ArchitectureKeys& model, std::int64_t seq_len) {
  const AttentionKeys& attention = model.attention;
  const auto require = [](const char* key, std::int64_t found) {
    TS_CHECK(found >= 1, "{}: found {}, expected at least 1 (or give model.config)", key, found);
  };
  require("model.hidden_size", model.hidden_size);
  require("model.layers", model.layers);
  require("model.heads", attention.heads);
  require("model.ffn_size", model.ffn_size);
  TS_CHECK(attention.head_dim > 0 || model.hidden_size % attention.heads == 0,
           "model.hidden_size = {} is not a multiple of model.heads = {} (or give model.head_dim)",
           model.hidden_size, attention.heads);
  TS_CHECK(attention.kv_heads == 0 || attention.heads % attention.kv_heads == 0,
           "model.heads = {} is not a multiple of model.kv_heads = {}", attention.heads, attention.kv_heads);
  TS_CHECK(model.max_positions == 0 || seq_len <= model.max_positions,
           "train.seq_len = {} is beyond model.max_positions = {}", seq_len, model.max_positions);
}

bool is_llama(ModelTypeName type) {
  return type == ModelTypeName::llama || type == ModelTypeName::qwen2;
}

// As messages call them.
const char* family_name(ModelTypeName type) {
  switch (type) {
    case ModelTypeName::gpt2:
      return "gpt2";
    case ModelTypeName::gpt_neox:
      return "gpt_neox";
    case ModelTypeName::bert:
      return "bert";
    case ModelTypeName::llama:
    case ModelTypeName::qwen2:
      break;
  }
  return "llama and qwen2";
}

void validate_llama(const ArchitectureKeys& model) {
  const AttentionKeys& attention = model.attention;
  TS_CHECK(model.activation == ActivationName::silu,
           "model.activation is not silu, the activation of model.type = llama and qwen2");
  TS_CHECK(
      model.dropout == 0,
      "model.dropout = {} does not go with model.type = llama and qwen2, which drop in attention alone, by "
      "attention_dropout of a config.json",
      model.dropout);
  const std::int64_t head_dim =
      attention.head_dim > 0 ? attention.head_dim : model.hidden_size / attention.heads;
  TS_CHECK(head_dim % 2 == 0,
           "model.head_dim = {} (or model.hidden_size / model.heads) is odd: rotary angles need pairs",
           head_dim);
}

// The families before Llama: gelu, and as many key and value heads as queries.
void validate_classic(const ArchitectureKeys& model) {
  const AttentionKeys& attention = model.attention;
  const char* const name = family_name(model.type);
  TS_CHECK(model.activation != ActivationName::silu,
           "model.activation = silu does not go with model.type = {}: expected gelu_tanh or gelu_erf", name);
  TS_CHECK(model.type == ModelTypeName::gpt_neox || attention.rope_theta == AttentionKeys{}.rope_theta,
           "model.rope_theta does not go with model.type = {}, which learns its positions", name);
  TS_CHECK(attention.kv_heads == 0 || attention.kv_heads == attention.heads,
           "model.kv_heads = {} does not go with model.type = {}, which has as many as model.heads = {}",
           attention.kv_heads, name, attention.heads);
  TS_CHECK(attention.head_dim == 0 || attention.head_dim * attention.heads == model.hidden_size,
           "model.head_dim = {} does not go with model.type = {}: expected model.hidden_size / model.heads",
           attention.head_dim, name);
}

// Keys of one family alone.
void validate_particular(const ArchitectureKeys& model) {
  const char* const name = family_name(model.type);
  TS_CHECK(model.type == ModelTypeName::gpt2 || model.vocab_multiple == 1,
           "model.vocab_multiple = {} does not go with model.type = {}, whose embedding is not padded",
           model.vocab_multiple, name);
  TS_CHECK(model.type == ModelTypeName::gpt2 || model.ffn_dropout == 0,
           "model.ffn_dropout = {} does not go with model.type = {}: only gpt2 has it", model.ffn_dropout,
           name);
  if (model.type == ModelTypeName::gpt_neox) {
    GptNeoxConfig sizes;
    sizes.hidden_size = model.hidden_size;
    sizes.heads = model.attention.heads;
    sizes.rotary_fraction = model.attention.rotary_fraction;
    TS_CHECK(sizes.rotary_dim() >= 2 && sizes.rotary_dim() % 2 == 0,
             "model.rotary_fraction = {} of heads of {} (model.hidden_size / model.heads) are {} elements, "
             "expected an even number from 2 on",
             sizes.rotary_fraction, sizes.head_dim(), sizes.rotary_dim());
  } else {
    TS_CHECK(
        model.attention.rotary_fraction == AttentionKeys{}.rotary_fraction,
        "model.rotary_fraction = {} does not go with model.type = {}: only gpt_neox turns a part of a head",
        model.attention.rotary_fraction, name);
    TS_CHECK(model.parallel_residual,
             "model.parallel_residual = false does not go with model.type = {}: only gpt_neox has the choice",
             name);
  }
  TS_CHECK(model.type == ModelTypeName::bert || model.token_types == ArchitectureKeys{}.token_types,
           "model.token_types = {} does not go with model.type = {}: only bert has them", model.token_types,
           name);
}

}  // namespace

void declare_model(ConfigSchema& s, ModelKeys& model) {
  s.text("model.config", &model.config, "Hugging Face config.json or its folder, instead of the keys below");
  declare_architecture(s, model.architecture);
  s.number("model.init_std", &model.init_std, "standard deviation of the initial weights", kPositive);
  s.text("model.weights", &model.weights, "Hugging Face folder or checkpoint to start from");
}

void validate_model(const ModelKeys& model, std::int64_t seq_len) {
  if (model.config.empty()) {
    validate_inline_sizes(model.architecture, seq_len);
    is_llama(model.architecture.type) ? validate_llama(model.architecture)
                                      : validate_classic(model.architecture);
    validate_particular(model.architecture);
    return;
  }
  TS_CHECK(model.init_std == ModelKeys{}.init_std,
           "model.config and model.init_std are both given: the former says how weights start");
  ArchitectureKeys architecture;
  ConfigSchema schema;
  declare_architecture(schema, architecture);
  architecture = model.architecture;
  for (const ConfigKey& key : schema.keys()) {
    TS_CHECK(is_default(key),
             "model.config and {} are both given: expected the architecture from one of them", key.path);
  }
}

}  // namespace tessera
