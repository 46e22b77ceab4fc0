// Shapes: b batch, t sequence, d hidden size, e = 3 d qkv columns, f feed-forward size, v vocabulary,
// p positions.
#include "tessera/models/gpt2.h"

#include <cmath>

#include "tessera/models/decoder.h"
#include "tessera/models/gelu_name.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/add_positions.h"

namespace tessera {
namespace {

class Gpt2 final : public Model {
 public:
  explicit Gpt2(const Gpt2Config& config) : c_(config) {}

  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_positions; }

  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids_bt) const override {
    DecoderFrame frame{c_.embedding_rows(), c_.hidden_size, c_.layers, c_.tie_embeddings, c_.init_std};
    if (c_.embedding_rows() > c_.vocab_size) frame.words = c_.vocab_size;
    DecoderParts parts;
    parts.embedded = [&](ValueId x_btd) {
      const ValueId positions_pd = builder.parameter(
          "positions.weight", Shape{c_.max_positions, c_.hidden_size}, normal_init(c_.init_std));
      x_btd = add_positions(builder.graph(), "positions", x_btd, positions_pd, builder.first_position());
      return builder.add_dropped("embed.dropout", x_btd, kNoValue, c_.embedding_dropout);
    };
    parts.block = [&](const std::string& name, ValueId x_btd) { return block(builder, name, x_btd); };
    parts.last_norm = [&](ValueId x_btd) { return layer_norm_layer(builder, "norm", x_btd, c_.norm_eps); };
    return build_decoder(builder, frame, parts, ids_bt);
  }

  std::vector<ExternalTensor> external_tensors() const override;
  std::string config_json() const override;

 private:
  ValueId block(ModelBuilder& builder, const std::string& name, ValueId x_btd) const {
    Graph& graph = builder.graph();
    const HeadLayout heads{c_.heads, c_.heads, c_.hidden_size / c_.heads};
    const LinearOptions inner{.bias = true, .init_std = c_.init_std};
    // GPT-2 scales what is added to the residual stream by its depth.
    const double depth_std = c_.init_std / std::sqrt(2.0 * static_cast<double>(c_.layers));
    const LinearOptions outer{.bias = true, .init_std = depth_std};
    // Megatron's query-key layer scaling divides the scores by the layer's number and multiplies them again
    // inside the softmax, so that they fit 16 bits. Ours are fp32 from the first: one scale is the same.
    const double scale = 1.0 / std::sqrt(static_cast<double>(heads.head_dim));

    ValueId h_btd = layer_norm_layer(builder, name + ".attention_norm", x_btd, c_.norm_eps);
    const ValueId qkv_bte = linear_layer(builder, name + ".attention.qkv", h_btd, heads.qkv_columns(), inner);
    h_btd = attention_layer(builder, name + ".attention", qkv_bte,
                            {heads, scale, /*causal=*/true, c_.attention_dropout});
    h_btd = linear_layer(builder, name + ".attention.out", h_btd, c_.hidden_size, outer);
    x_btd = builder.add_dropped(name + ".attention.residual", h_btd, x_btd, c_.residual_dropout);

    h_btd = layer_norm_layer(builder, name + ".mlp_norm", x_btd, c_.norm_eps);
    ValueId h_btf = linear_layer(builder, name + ".mlp.up", h_btd, c_.ffn_size, inner);
    h_btf = gelu(graph, name + ".mlp.gelu", h_btf, c_.gelu_tanh);
    h_btf = builder.add_dropped(name + ".mlp.dropout", h_btf, kNoValue, c_.ffn_dropout);
    h_btd = linear_layer(builder, name + ".mlp.down", h_btf, c_.hidden_size, outer);
    return builder.add_dropped(name + ".mlp.residual", h_btd, x_btd, c_.residual_dropout);
  }

  Gpt2Config c_;
};

std::vector<ExternalTensor> Gpt2::external_tensors() const {
  std::vector<ExternalTensor> tensors;
  const std::int64_t d = c_.hidden_size;
  const auto norm = [&](const std::string& theirs, const std::string& ours) {
    tensors.push_back({theirs + ".weight", ours + ".weight", 0, d});
    tensors.push_back({theirs + ".bias", ours + ".bias", 0, d});
  };
  // transformers' Conv1D stores its weight as [in, out].
  const auto conv1d = [&](const std::string& theirs, const std::string& ours, std::int64_t rows) {
    tensors.push_back({theirs + ".weight", ours + ".weight", 0, rows, /*transposed=*/true});
    tensors.push_back({theirs + ".bias", ours + ".bias", 0, rows});
  };
  tensors.push_back({"transformer.wte.weight", "embed.weight", 0, c_.vocab_size});
  tensors.push_back({"transformer.wpe.weight", "positions.weight", 0, c_.max_positions});
  for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
    const std::string theirs = "transformer.h." + std::to_string(layer),
                      ours = "layers." + std::to_string(layer);
    norm(theirs + ".ln_1", ours + ".attention_norm");
    conv1d(theirs + ".attn.c_attn", ours + ".attention.qkv", 3 * d);
    conv1d(theirs + ".attn.c_proj", ours + ".attention.out", d);
    norm(theirs + ".ln_2", ours + ".mlp_norm");
    conv1d(theirs + ".mlp.c_fc", ours + ".mlp.up", c_.ffn_size);
    conv1d(theirs + ".mlp.c_proj", ours + ".mlp.down", d);
  }
  norm("transformer.ln_f", "norm");
  if (!c_.tie_embeddings) tensors.push_back({"lm_head.weight", "head.weight", 0, c_.vocab_size});
  return tensors;
}

std::string Gpt2::config_json() const {
  return fmt::format(
      R"({{
  "activation_function": "{}",
  "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": {},
  "dtype": "float32",
  "embd_pdrop": {},{}
  "initializer_range": {},
  "layer_norm_epsilon": {},
  "model_type": "gpt2",
  "n_embd": {},
  "n_head": {},
  "n_inner": {},
  "n_layer": {},
  "n_positions": {},{}
  "resid_pdrop": {},
  "tie_word_embeddings": {},
  "vocab_size": {}
}}
)",
      gelu_name(c_.gelu_tanh), c_.attention_dropout, c_.embedding_dropout,
      c_.ffn_dropout > 0 ? fmt::format("\n  \"ffn_pdrop\": {},", c_.ffn_dropout) : "", c_.init_std,
      c_.norm_eps, c_.hidden_size, c_.heads, c_.ffn_size, c_.layers, c_.max_positions,
      c_.embedding_rows() > c_.vocab_size
          ? fmt::format("\n  \"padded_vocab_size\": {},", c_.padded_vocab_size)
          : "",
      c_.residual_dropout, c_.tie_embeddings, c_.vocab_size);
}

}  // namespace

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config) {
  TS_CHECK(config.hidden_size % config.heads == 0, "model: hidden size {} is not a multiple of {} heads",
           config.hidden_size, config.heads);
  TS_CHECK(config.embedding_rows() >= config.vocab_size,
           "model: {} rows are fewer than the {} words of the vocabulary", config.embedding_rows(),
           config.vocab_size);
  return std::make_unique<Gpt2>(config);
}

Gpt2Config read_gpt2_config(const JsonConfig& json) {
  Gpt2Config c;
  c.vocab_size = json.positive_integer("vocab_size", kMaxIds);
  // Our own key, which transformers passes over: it has no use for rows that are no words.
  c.padded_vocab_size = json.positive_integer("padded_vocab_size", kMaxIds, c.vocab_size);
  TS_CHECK(c.padded_vocab_size >= c.vocab_size,
           "{}: 'padded_vocab_size' is {}, expected at least 'vocab_size', which is {}", json.source(),
           c.padded_vocab_size, c.vocab_size);
  c.hidden_size = json.positive_integer("n_embd", kMaxWidth);
  c.layers = json.positive_integer("n_layer", kMaxLayers);
  c.heads = json.positive_integer("n_head", kMaxWidth);
  c.ffn_size = json.positive_integer("n_inner", kMaxFfnWidth, 4 * c.hidden_size);
  TS_CHECK(c.hidden_size % c.heads == 0, "{}: 'n_embd' is {}, expected a multiple of 'n_head', which is {}",
           json.source(), c.hidden_size, c.heads);
  c.max_positions = json.positive_integer("n_positions", kMaxPositions);
  c.norm_eps = json.positive_number("layer_norm_epsilon", 1e-5);
  c.tie_embeddings = json.boolean("tie_word_embeddings", true);
  c.init_std = json.number("initializer_range", 0.02);
  c.embedding_dropout = json.rate("embd_pdrop", 0.1);
  c.residual_dropout = json.rate("resid_pdrop", 0.1);
  c.attention_dropout = json.rate("attn_pdrop", 0.1);
  c.ffn_dropout = json.rate("ffn_pdrop", 0.0);  // our own key, too
  c.gelu_tanh = read_gelu_tanh(json, "activation_function", "gelu_new");
  const auto refuse = [&](bool ok, const std::string& what) {
    TS_CHECK(ok, "{}: {} is not supported", json.source(), what);
  };
  refuse(json.boolean("scale_attn_weights", true), "scale_attn_weights = false");
  refuse(!json.boolean("scale_attn_by_inverse_layer_idx", false), "scale_attn_by_inverse_layer_idx");
  refuse(!json.boolean("add_cross_attention", false), "add_cross_attention");
  return c;
}

}  // namespace tessera
