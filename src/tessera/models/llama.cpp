// Shapes: b batch, t sequence, d hidden size, e qkv columns, f feed-forward size, v vocabulary, p positions,
// r half of the rotary dim.
#include "tessera/models/llama.h"

#include <cmath>

#include "tessera/models/decoder.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rope.h"

namespace tessera {
namespace {

class Llama final : public Model {
 public:
  explicit Llama(const LlamaConfig& config) : c_(config) {}

  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_positions; }

  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids_bt) const override {
    const DecoderFrame frame{c_.vocab_size, c_.hidden_size, c_.layers, c_.tie_embeddings, c_.init_std};
    const std::int64_t positions = builder.num_positions(builder.graph().type(ids_bt).shape[1]);
    const ValueId rope_pr2 =
        rope_table(builder.graph(), "rope_table", {positions, c_.head_dim, c_.rope_theta, builder.dtype()});
    DecoderParts parts;
    parts.block = [&](const std::string& name, ValueId x_btd) {
      return block(builder, name, x_btd, rope_pr2);
    };
    parts.last_norm = [&](ValueId x_btd) { return rms_norm_layer(builder, "norm", x_btd, c_.norm_eps); };
    return build_decoder(builder, frame, parts, ids_bt);
  }

  std::vector<ExternalTensor> external_tensors() const override;
  std::string config_json() const override;

 private:
  ValueId block(ModelBuilder& builder, const std::string& name, ValueId x_btd, ValueId rope_pr2) const {
    Graph& graph = builder.graph();
    const HeadLayout heads{c_.heads, c_.kv_heads, c_.head_dim};
    const LinearOptions plain{.bias = false, .init_std = c_.init_std};
    const LinearOptions qkv{.bias = c_.qkv_bias, .init_std = c_.init_std};
    const double scale = 1.0 / std::sqrt(static_cast<double>(c_.head_dim));

    ValueId h_btd = rms_norm_layer(builder, name + ".attention_norm", x_btd, c_.norm_eps);
    ValueId qkv_bte = linear_layer(builder, name + ".attention.qkv", h_btd, heads.qkv_columns(), qkv);
    qkv_bte = rope(graph, name + ".attention.rope", qkv_bte, rope_pr2, heads, builder.first_position());
    h_btd = attention_layer(builder, name + ".attention", qkv_bte,
                            {heads, scale, /*causal=*/true, c_.attention_dropout});
    h_btd = linear_layer(builder, name + ".attention.out", h_btd, c_.hidden_size, plain);
    x_btd = add(graph, name + ".attention.residual", h_btd, x_btd);

    h_btd = rms_norm_layer(builder, name + ".mlp_norm", x_btd, c_.norm_eps);
    ValueId h_btf = linear_layer(builder, name + ".mlp.gate_up", h_btd, 2 * c_.ffn_size, plain);
    h_btf = swiglu(graph, name + ".mlp.swiglu", h_btf);
    h_btd = linear_layer(builder, name + ".mlp.down", h_btf, c_.hidden_size, plain);
    return add(graph, name + ".mlp.residual", h_btd, x_btd);
  }

  LlamaConfig c_;
};

std::vector<ExternalTensor> Llama::external_tensors() const {
  std::vector<ExternalTensor> tensors;
  const auto whole = [&](std::string name, std::string parameter, std::int64_t rows) {
    tensors.push_back({std::move(name), std::move(parameter), 0, rows});
  };
  whole("model.embed_tokens.weight", "embed.weight", c_.vocab_size);
  const std::int64_t q_rows = c_.heads * c_.head_dim, kv_rows = c_.kv_heads * c_.head_dim;
  for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
    const std::string theirs = "model.layers." + std::to_string(layer),
                      ours = "layers." + std::to_string(layer);
    whole(theirs + ".input_layernorm.weight", ours + ".attention_norm.weight", c_.hidden_size);
    for (const char* part : {".weight", ".bias"}) {
      if (part == std::string_view(".bias") && !c_.qkv_bias) continue;
      const std::string qkv = ours + ".attention.qkv" + part, attn = theirs + ".self_attn.";
      tensors.push_back({attn + "q_proj" + part, qkv, 0, q_rows});
      tensors.push_back({attn + "k_proj" + part, qkv, q_rows, kv_rows});
      tensors.push_back({attn + "v_proj" + part, qkv, q_rows + kv_rows, kv_rows});
    }
    whole(theirs + ".self_attn.o_proj.weight", ours + ".attention.out.weight", c_.hidden_size);
    whole(theirs + ".post_attention_layernorm.weight", ours + ".mlp_norm.weight", c_.hidden_size);
    tensors.push_back({theirs + ".mlp.gate_proj.weight", ours + ".mlp.gate_up.weight", 0, c_.ffn_size});
    tensors.push_back(
        {theirs + ".mlp.up_proj.weight", ours + ".mlp.gate_up.weight", c_.ffn_size, c_.ffn_size});
    whole(theirs + ".mlp.down_proj.weight", ours + ".mlp.down.weight", c_.hidden_size);
  }
  whole("model.norm.weight", "norm.weight", c_.hidden_size);
  if (!c_.tie_embeddings) whole("lm_head.weight", "head.weight", c_.vocab_size);
  return tensors;
}

std::string Llama::config_json() const {
  // Keys in transformers' own order (alphabetical); both spellings of the rotary base, so that old
  // and new versions read it.
  return fmt::format(
      R"({{
  "architectures": ["{}"],
  "attention_bias": {},
  "attention_dropout": {},
  "dtype": "float32",
  "head_dim": {},
  "hidden_act": "silu",
  "hidden_size": {},
  "initializer_range": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "model_type": "{}",
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "num_key_value_heads": {},
  "rms_norm_eps": {},
  "rope_parameters": {{"rope_theta": {}, "rope_type": "default"}},
  "rope_theta": {},
  "tie_word_embeddings": {},
  "vocab_size": {}
}}
)",
      c_.qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM", false, c_.attention_dropout, c_.head_dim,
      c_.hidden_size, c_.init_std, c_.ffn_size, c_.max_positions, c_.qkv_bias ? "qwen2" : "llama", c_.heads,
      c_.layers, c_.kv_heads, c_.norm_eps, c_.rope_theta, c_.rope_theta, c_.tie_embeddings, c_.vocab_size);
}

}  // namespace

std::unique_ptr<Model> make_llama(const LlamaConfig& config) {
  TS_CHECK(config.heads % config.kv_heads == 0,
           "model: {} heads cannot share {} key-value heads: {} is not a multiple", config.heads,
           config.kv_heads, config.heads);
  TS_CHECK(config.head_dim % 2 == 0, "model: head_dim is {}, rotary positions need an even number",
           config.head_dim);
  return std::make_unique<Llama>(config);
}

LlamaConfig read_llama_config(const JsonConfig& json) {
  LlamaConfig c;
  const bool qwen2 = json.text("model_type") == "qwen2";
  c.vocab_size = json.positive_integer("vocab_size", kMaxIds);
  c.hidden_size = json.positive_integer("hidden_size", kMaxWidth);
  c.layers = json.positive_integer("num_hidden_layers", kMaxLayers);
  c.heads = json.positive_integer("num_attention_heads", kMaxWidth);
  c.kv_heads = json.positive_integer("num_key_value_heads", kMaxWidth, c.heads);
  c.head_dim =
      json.positive_integer("head_dim", kMaxWidth, std::max<std::int64_t>(1, c.hidden_size / c.heads));
  c.ffn_size = json.positive_integer("intermediate_size", kMaxFfnWidth);
  c.max_positions = json.positive_integer("max_position_embeddings", kMaxPositions);
  c.norm_eps = json.positive_number("rms_norm_eps", 1e-6);
  const bool nested = json.has("rope_parameters.rope_theta");
  c.rope_theta = json.positive_number(nested ? "rope_parameters.rope_theta" : "rope_theta", 10000.0);
  c.tie_embeddings = json.boolean("tie_word_embeddings", false);
  c.init_std = json.number("initializer_range", 0.02);
  c.qkv_bias = qwen2;
  c.attention_dropout = json.rate("attention_dropout", 0.0);
  const auto refuse = [&](bool ok, const std::string& what) {
    TS_CHECK(ok, "{}: {} is not supported", json.source(), what);
  };
  TS_CHECK(c.heads % c.kv_heads == 0,
           "{}: 'num_attention_heads' is {}, expected a multiple of 'num_key_value_heads', which is {}",
           json.source(), c.heads, c.kv_heads);
  TS_CHECK(c.head_dim % 2 == 0, "{}: 'head_dim' is {}, expected an even number for the rotary positions",
           json.source(), c.head_dim);
  refuse(json.text("hidden_act", "silu") == "silu", "hidden_act other than 'silu'");
  refuse(!json.boolean("attention_bias", false), "attention_bias (biases also on the output projection)");
  refuse(!json.boolean("mlp_bias", false), "mlp_bias");
  refuse(!json.boolean("use_sliding_window", false), "use_sliding_window");
  refuse(json.text("rope_parameters.rope_type", "default") == "default", "a rope_type other than 'default'");
  refuse(!json.has("rope_scaling"), "rope_scaling");
  return c;
}

}  // namespace tessera
