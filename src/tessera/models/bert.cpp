// Shapes: b batch, t sequence, d hidden size, e = 3 d qkv columns, f feed-forward size, v vocabulary, p
// positions, k token types.
#include "tessera/models/bert.h"

#include <cmath>

#include "tessera/models/gelu_name.h"
#include "tessera/nn/layer_stack.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/add_positions.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/slice.h"

namespace tessera {
namespace {

class Bert final : public Model {
 public:
  explicit Bert(const BertConfig& config) : c_(config) {}

  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_positions; }
  bool causal() const override { return false; }

  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids_bt) const override {
    const std::int64_t batch = builder.graph().type(ids_bt).shape[0];
    const ValueId tokens_vd = table(builder, "embed.weight", c_.vocab_size);
    const ValueId key_counts_b1 =
        builder.graph().add_input(std::string(kKeyCountsInput), {DType::i32, Shape{batch, 1}}, Role::batch);
    const auto block = [&](const std::string& name, ValueId x_btd) {
      return this->block(builder, name, x_btd, key_counts_b1);
    };
    const ValueId x_btd = stack_layers(builder, c_.layers, block, embed(builder, ids_bt, tokens_vd));
    return {predict_tokens(builder, x_btd, tokens_vd), predict_next_sentence(builder, x_btd)};
  }

  std::vector<ExternalTensor> external_tensors() const override;
  std::string config_json() const override;

 private:
  LinearOptions linear() const { return {.bias = true, .init_std = c_.init_std}; }

  ValueId table(ModelBuilder& builder, const std::string& name, std::int64_t rows) const {
    return builder.parameter(name, Shape{rows, c_.hidden_size}, normal_init(c_.init_std));
  }

  ValueId embed(ModelBuilder& builder, ValueId ids_bt, ValueId tokens_vd) const {
    Graph& graph = builder.graph();
    const ValueId types_bt = graph.add_input(std::string(kTokenTypesInput), graph.type(ids_bt), Role::batch);
    const ValueId types_kd = table(builder, "token_types.weight", c_.token_types);
    const ValueId positions_pd = table(builder, "positions.weight", c_.max_positions);
    ValueId x_btd = embedding(graph, "embed", tokens_vd, ids_bt, c_.padding_id);
    x_btd = add(graph, "embed.sum", x_btd, embedding(graph, "token_types", types_kd, types_bt));
    x_btd = add_positions(graph, "positions", x_btd, positions_pd);
    x_btd = layer_norm_layer(builder, "embed_norm", x_btd, c_.norm_eps);
    return builder.add_dropped("embed.dropout", x_btd, kNoValue, c_.dropout);
  }

  ValueId block(ModelBuilder& builder, const std::string& name, ValueId x_btd, ValueId key_counts_b1) const {
    Graph& graph = builder.graph();
    const HeadLayout heads{c_.heads, c_.heads, c_.hidden_size / c_.heads};
    const double scale = 1.0 / std::sqrt(static_cast<double>(heads.head_dim));
    const ValueId qkv_bte =
        linear_layer(builder, name + ".attention.qkv", x_btd, heads.qkv_columns(), linear());
    ValueId h_btd = attention_layer(builder, name + ".attention", qkv_bte,
                                    {heads, scale, /*causal=*/false, c_.attention_dropout}, key_counts_b1);
    h_btd = linear_layer(builder, name + ".attention.out", h_btd, c_.hidden_size, linear());
    x_btd = builder.add_dropped(name + ".attention.residual", h_btd, x_btd, c_.dropout);
    x_btd = layer_norm_layer(builder, name + ".attention_norm", x_btd, c_.norm_eps);

    ValueId h_btf = linear_layer(builder, name + ".mlp.up", x_btd, c_.ffn_size, linear());
    h_btf = gelu(graph, name + ".mlp.gelu", h_btf, c_.gelu_tanh);
    h_btd = linear_layer(builder, name + ".mlp.down", h_btf, c_.hidden_size, linear());
    x_btd = builder.add_dropped(name + ".mlp.residual", h_btd, x_btd, c_.dropout);
    return layer_norm_layer(builder, name + ".mlp_norm", x_btd, c_.norm_eps);
  }

  Prediction predict_tokens(ModelBuilder& builder, ValueId x_btd, ValueId tokens_vd) const {
    ValueId h_btd = linear_layer(builder, "transform", x_btd, c_.hidden_size, linear());
    h_btd = gelu(builder.graph(), "transform.gelu", h_btd, c_.gelu_tanh);
    h_btd = layer_norm_layer(builder, "transform_norm", h_btd, c_.norm_eps);
    const ValueId bias_v = builder.parameter("head.bias", Shape{c_.vocab_size}, constant_init(0));
    return {.hidden = h_btd, .weight = tokens_vd, .bias = bias_v};
  }

  // From the first token of every sequence, "[CLS]".
  Prediction predict_next_sentence(ModelBuilder& builder, ValueId x_btd) const {
    Graph& graph = builder.graph();
    ValueId first_b1d = slice(graph, "pooler.first", x_btd, 0, 1, /*dim=*/-2);
    first_b1d = linear_layer(builder, "pooler", first_b1d, c_.hidden_size, linear());
    first_b1d = tanh(graph, "pooler.tanh", first_b1d);
    const ValueId weight_2d = table(builder, "next_sentence.weight", 2);
    const ValueId bias_2 = builder.parameter("next_sentence.bias", Shape{2}, constant_init(0));
    return {
        .hidden = first_b1d, .weight = weight_2d, .bias = bias_2, .targets = std::string(kNextSentenceInput)};
  }

  BertConfig c_;
};

std::vector<ExternalTensor> Bert::external_tensors() const {
  std::vector<ExternalTensor> tensors;
  const std::int64_t d = c_.hidden_size;
  // Rows [first, first + rows) of ours.
  const auto pair = [&](const std::string& theirs, const std::string& ours, std::int64_t rows,
                        std::int64_t first = 0) {
    tensors.push_back({theirs + ".weight", ours + ".weight", first, rows});
    tensors.push_back({theirs + ".bias", ours + ".bias", first, rows});
  };
  const std::string embeddings = "bert.embeddings.";
  tensors.push_back({embeddings + "word_embeddings.weight", "embed.weight", 0, c_.vocab_size});
  tensors.push_back({embeddings + "token_type_embeddings.weight", "token_types.weight", 0, c_.token_types});
  tensors.push_back({embeddings + "position_embeddings.weight", "positions.weight", 0, c_.max_positions});
  pair(embeddings + "LayerNorm", "embed_norm", d);
  for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
    const std::string theirs = "bert.encoder.layer." + std::to_string(layer),
                      ours = "layers." + std::to_string(layer);
    std::int64_t first = 0;
    for (const char* part : {"query", "key", "value"}) {
      pair(theirs + ".attention.self." + part, ours + ".attention.qkv", d, first);
      first += d;
    }
    pair(theirs + ".attention.output.dense", ours + ".attention.out", d);
    pair(theirs + ".attention.output.LayerNorm", ours + ".attention_norm", d);
    pair(theirs + ".intermediate.dense", ours + ".mlp.up", c_.ffn_size);
    pair(theirs + ".output.dense", ours + ".mlp.down", d);
    pair(theirs + ".output.LayerNorm", ours + ".mlp_norm", d);
  }
  pair("bert.pooler.dense", "pooler", d);
  pair("cls.predictions.transform.dense", "transform", d);
  pair("cls.predictions.transform.LayerNorm", "transform_norm", d);
  tensors.push_back({"cls.predictions.bias", "head.bias", 0, c_.vocab_size});
  pair("cls.seq_relationship", "next_sentence", 2);
  return tensors;
}

std::string Bert::config_json() const {
  return fmt::format(
      R"({{
  "architectures": ["BertForPreTraining"],
  "attention_probs_dropout_prob": {},
  "dtype": "float32",
  "hidden_act": "{}",
  "hidden_dropout_prob": {},
  "hidden_size": {},
  "initializer_range": {},
  "intermediate_size": {},
  "layer_norm_eps": {},
  "max_position_embeddings": {},
  "model_type": "bert",
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "pad_token_id": {},
  "tie_word_embeddings": true,
  "type_vocab_size": {},
  "vocab_size": {}
}}
)",
      c_.attention_dropout, gelu_name(c_.gelu_tanh), c_.dropout, c_.hidden_size, c_.init_std, c_.ffn_size,
      c_.norm_eps, c_.max_positions, c_.heads, c_.layers, c_.padding_id, c_.token_types, c_.vocab_size);
}

}  // namespace

std::unique_ptr<Model> make_bert(const BertConfig& config) {
  TS_CHECK(config.hidden_size % config.heads == 0, "model: hidden size {} is not a multiple of {} heads",
           config.hidden_size, config.heads);
  return std::make_unique<Bert>(config);
}

BertConfig read_bert_config(const JsonConfig& json) {
  BertConfig c;
  c.vocab_size = json.positive_integer("vocab_size", kMaxIds);
  c.hidden_size = json.positive_integer("hidden_size", kMaxWidth);
  c.layers = json.positive_integer("num_hidden_layers", kMaxLayers);
  c.heads = json.positive_integer("num_attention_heads", kMaxWidth);
  c.ffn_size = json.positive_integer("intermediate_size", kMaxFfnWidth);
  c.max_positions = json.positive_integer("max_position_embeddings", kMaxPositions);
  c.token_types = json.positive_integer("type_vocab_size", kMaxIds, 2);
  c.padding_id = json.integer("pad_token_id", 0);
  c.norm_eps = json.positive_number("layer_norm_eps", 1e-12);
  c.gelu_tanh = read_gelu_tanh(json, "hidden_act", "gelu");
  c.init_std = json.number("initializer_range", 0.02);
  c.dropout = json.rate("hidden_dropout_prob", 0.1);
  c.attention_dropout = json.rate("attention_probs_dropout_prob", 0.1);
  TS_CHECK(c.token_types >= 2,
           "{}: 'type_vocab_size' is {}, expected at least 2: pairs of sentences have two", json.source(),
           c.token_types);
  TS_CHECK(c.hidden_size % c.heads == 0,
           "{}: 'hidden_size' is {}, expected a multiple of 'num_attention_heads', which is {}",
           json.source(), c.hidden_size, c.heads);
  TS_CHECK(c.padding_id >= 0 && c.padding_id < c.vocab_size,
           "{}: 'pad_token_id' is {}, expected one of the {} ids of 'vocab_size'", json.source(),
           c.padding_id, c.vocab_size);
  const auto refuse = [&](bool ok, const std::string& what) {
    TS_CHECK(ok, "{}: {} is not supported", json.source(), what);
  };
  refuse(json.text("position_embedding_type", "absolute") == "absolute",
         "a position_embedding_type other than 'absolute'");
  refuse(json.boolean("tie_word_embeddings", true), "tie_word_embeddings = false");
  refuse(!json.boolean("is_decoder", false), "is_decoder");
  refuse(!json.boolean("add_cross_attention", false), "add_cross_attention");
  return c;
}

}  // namespace tessera
