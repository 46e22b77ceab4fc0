// Shapes: b batch, t sequence, d hidden size, e = 3 d qkv columns, f feed-forward size, v vocabulary, p
// positions, r half of the rotary dim.
#include "tessera/models/gpt_neox.h"

#include <cmath>

#include "tessera/models/decoder.h"
#include "tessera/models/gelu_name.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rope.h"

namespace tessera {
namespace {

class GptNeox final : public Model {
 public:
  explicit GptNeox(const GptNeoxConfig& config) : c_(config) {}

  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_positions; }

  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids_bt) const override {
    const DecoderFrame frame{c_.vocab_size, c_.hidden_size, c_.layers, c_.tie_embeddings, c_.init_std};
    const std::int64_t positions = builder.num_positions(builder.graph().type(ids_bt).shape[1]);
    const ValueId rope_pr2 = rope_table(builder.graph(), "rope_table",
                                        {positions, c_.rotary_dim(), c_.rope_theta, builder.dtype()});
    DecoderParts parts;
    parts.embedded = [&](ValueId x_btd) {
      return builder.add_dropped("embed.dropout", x_btd, kNoValue, c_.dropout);
    };
    parts.block = [&](const std::string& name, ValueId x_btd) {
      return block(builder, name, x_btd, rope_pr2);
    };
    parts.last_norm = [&](ValueId x_btd) { return layer_norm_layer(builder, "norm", x_btd, c_.norm_eps); };
    return build_decoder(builder, frame, parts, ids_bt);
  }

  std::vector<ExternalTensor> external_tensors() const override;
  std::string config_json() const override;

 private:
  ValueId attend(ModelBuilder& builder, const std::string& name, ValueId x_btd, ValueId rope_pr2) const {
    Graph& graph = builder.graph();
    const HeadLayout heads{c_.heads, c_.heads, c_.head_dim()};
    const LinearOptions linear{.bias = c_.attention_bias, .init_std = c_.init_std};
    const double scale = 1.0 / std::sqrt(static_cast<double>(heads.head_dim));
    const ValueId h_btd = layer_norm_layer(builder, name + "_norm", x_btd, c_.norm_eps);
    ValueId qkv_bte = linear_layer(builder, name + ".qkv", h_btd, heads.qkv_columns(), linear);
    qkv_bte = rope(graph, name + ".rope", qkv_bte, rope_pr2, heads, builder.first_position());
    const ValueId out_btd =
        attention_layer(builder, name, qkv_bte, {heads, scale, /*causal=*/true, c_.attention_dropout});
    return linear_layer(builder, name + ".out", out_btd, c_.hidden_size, linear);
  }

  ValueId feed_forward(ModelBuilder& builder, const std::string& name, ValueId x_btd) const {
    const LinearOptions linear{.bias = true, .init_std = c_.init_std};
    const ValueId h_btd = layer_norm_layer(builder, name + "_norm", x_btd, c_.norm_eps);
    ValueId h_btf = linear_layer(builder, name + ".up", h_btd, c_.ffn_size, linear);
    h_btf = gelu(builder.graph(), name + ".gelu", h_btf, c_.gelu_tanh);
    return linear_layer(builder, name + ".down", h_btf, c_.hidden_size, linear);
  }

  ValueId block(ModelBuilder& builder, const std::string& name, ValueId x_btd, ValueId rope_pr2) const {
    const std::string residual = ".residual", attention = name + ".attention", mlp = name + ".mlp";
    const ValueId a_btd = attend(builder, attention, x_btd, rope_pr2);
    if (!c_.parallel_residual) {
      x_btd = builder.add_dropped(attention + residual, a_btd, x_btd, c_.dropout);
      return builder.add_dropped(mlp + residual, feed_forward(builder, mlp, x_btd), x_btd, c_.dropout);
    }
    // The halves are added to each other first: where ranks share their products, one sum over the ranks is
    // enough for both.
    ValueId h_btd = builder.add_dropped(attention + ".dropout", a_btd, kNoValue, c_.dropout);
    h_btd = builder.add_dropped(name + ".halves", feed_forward(builder, mlp, x_btd), h_btd, c_.dropout);
    return add(builder.graph(), name + residual, h_btd, x_btd);
  }

  GptNeoxConfig c_;
};

std::vector<ExternalTensor> GptNeox::external_tensors() const {
  std::vector<ExternalTensor> tensors;
  const std::int64_t d = c_.hidden_size;
  const auto pair = [&](const std::string& theirs, const std::string& ours, std::int64_t rows,
                        bool bias = true) {
    tensors.push_back({theirs + ".weight", ours + ".weight", 0, rows});
    if (bias) tensors.push_back({theirs + ".bias", ours + ".bias", 0, rows});
  };
  tensors.push_back({"gpt_neox.embed_in.weight", "embed.weight", 0, c_.vocab_size});
  for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
    const std::string theirs = "gpt_neox.layers." + std::to_string(layer),
                      ours = "layers." + std::to_string(layer);
    pair(theirs + ".input_layernorm", ours + ".attention_norm", d);
    const std::size_t qkv = tensors.size();
    pair(theirs + ".attention.query_key_value", ours + ".attention.qkv", 3 * d, c_.attention_bias);
    for (std::size_t i = qkv; i < tensors.size(); ++i) tensors[i].qkv_heads = c_.heads;
    pair(theirs + ".attention.dense", ours + ".attention.out", d, c_.attention_bias);
    pair(theirs + ".post_attention_layernorm", ours + ".mlp_norm", d);
    pair(theirs + ".mlp.dense_h_to_4h", ours + ".mlp.up", c_.ffn_size);
    pair(theirs + ".mlp.dense_4h_to_h", ours + ".mlp.down", d);
  }
  pair("gpt_neox.final_layer_norm", "norm", d);
  if (!c_.tie_embeddings) tensors.push_back({"embed_out.weight", "head.weight", 0, c_.vocab_size});
  return tensors;
}

// Both spellings of the rotary keys, so that old and new versions of transformers read them.
std::string GptNeox::config_json() const {
  return fmt::format(
      R"({{
  "architectures": ["GPTNeoXForCausalLM"],
  "attention_bias": {},
  "attention_dropout": {},
  "dtype": "float32",
  "hidden_act": "{}",
  "hidden_dropout": {},
  "hidden_size": {},
  "initializer_range": {},
  "intermediate_size": {},
  "layer_norm_eps": {},
  "max_position_embeddings": {},
  "model_type": "gpt_neox",
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "rope_parameters": {{"partial_rotary_factor": {}, "rope_theta": {}, "rope_type": "default"}},
  "rotary_emb_base": {},
  "rotary_pct": {},
  "tie_word_embeddings": {},
  "use_parallel_residual": {},
  "vocab_size": {}
}}
)",
      c_.attention_bias, c_.attention_dropout, gelu_name(c_.gelu_tanh), c_.dropout, c_.hidden_size,
      c_.init_std, c_.ffn_size, c_.norm_eps, c_.max_positions, c_.heads, c_.layers, c_.rotary_fraction,
      c_.rope_theta, c_.rope_theta, c_.rotary_fraction, c_.tie_embeddings, c_.parallel_residual,
      c_.vocab_size);
}

}  // namespace

std::unique_ptr<Model> make_gpt_neox(const GptNeoxConfig& config) {
  TS_CHECK(config.hidden_size % config.heads == 0, "model: hidden size {} is not a multiple of {} heads",
           config.hidden_size, config.heads);
  TS_CHECK(
      config.rotary_dim() >= 2 && config.rotary_dim() % 2 == 0 && config.rotary_dim() <= config.head_dim(),
      "model: a fraction of {} of heads of {} gives {} rotary elements, expected an even number from 2 to {}",
      config.rotary_fraction, config.head_dim(), config.rotary_dim(), config.head_dim());
  return std::make_unique<GptNeox>(config);
}

GptNeoxConfig read_gpt_neox_config(const JsonConfig& json) {
  GptNeoxConfig c;
  c.vocab_size = json.positive_integer("vocab_size", kMaxIds);
  c.hidden_size = json.positive_integer("hidden_size", kMaxWidth);
  c.layers = json.positive_integer("num_hidden_layers", kMaxLayers);
  c.heads = json.positive_integer("num_attention_heads", kMaxWidth);
  c.ffn_size = json.positive_integer("intermediate_size", kMaxFfnWidth);
  c.max_positions = json.positive_integer("max_position_embeddings", kMaxPositions);
  c.norm_eps = json.positive_number("layer_norm_eps", 1e-5);
  // The new spelling is what a new transformers reads when both are there.
  const auto newest = [&](const std::string& name, const std::string& old_name) {
    return json.has("rope_parameters." + name) ? "rope_parameters." + name : old_name;
  };
  const std::string fraction = newest("partial_rotary_factor", "rotary_pct");
  c.rotary_fraction = json.number(fraction, 0.25);
  c.rope_theta = json.positive_number(newest("rope_theta", "rotary_emb_base"), 10000.0);
  c.parallel_residual = json.boolean("use_parallel_residual", true);
  c.gelu_tanh = read_gelu_tanh(json, "hidden_act", "gelu");
  c.attention_bias = json.boolean("attention_bias", true);
  c.tie_embeddings = json.boolean("tie_word_embeddings", false);
  c.init_std = json.number("initializer_range", 0.02);
  c.dropout = json.rate("hidden_dropout", 0.0);
  c.attention_dropout = json.rate("attention_dropout", 0.0);
  TS_CHECK(c.hidden_size % c.heads == 0,
           "{}: 'hidden_size' is {}, expected a multiple of 'num_attention_heads', which is {}",
           json.source(), c.hidden_size, c.heads);
  TS_CHECK(c.rotary_dim() >= 2 && c.rotary_dim() % 2 == 0 && c.rotary_dim() <= c.head_dim(),
           "{}: '{}' is {}, which is {} elements of heads of {}; expected an even number from 2 to {}",
           json.source(), fraction, c.rotary_fraction, c.rotary_dim(), c.head_dim(), c.head_dim());
  const auto refuse = [&](bool ok, const std::string& what) {
    TS_CHECK(ok, "{}: {} is not supported", json.source(), what);
  };
  refuse(json.text("rope_parameters.rope_type", "default") == "default", "a rope_type other than 'default'");
  refuse(!json.has("rope_scaling"), "rope_scaling");
  return c;
}

}  // namespace tessera
