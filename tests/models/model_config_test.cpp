// config.json in: both spellings of the rotary base, what is missing, wrong or not supported.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/models/bert.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/models/llama.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

Json llama_json() {
  return Json::parse(R"({"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "attention_dropout": 0.3,
    "tie_word_embeddings": false, "initializer_range": 0.01, "hidden_act": "silu"})");
}

Json gpt2_json() {
  return Json::parse(R"({"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 64, "attn_pdrop": 0.3, "embd_pdrop": 0.1, "resid_pdrop": 0.2,
    "layer_norm_epsilon": 1e-6, "activation_function": "gelu_new"})");
}

Json gpt_neox_json() {
  return Json::parse(R"({"model_type": "gpt_neox", "vocab_size": 96, "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64,
    "layer_norm_eps": 1e-6, "rotary_pct": 0.5, "rotary_emb_base": 500.0, "use_parallel_residual": false,
    "tie_word_embeddings": true, "initializer_range": 0.01, "hidden_act": "gelu_new",
    "hidden_dropout": 0.1, "attention_dropout": 0.3})");
}

Json bert_json() {
  return Json::parse(R"({"model_type": "bert", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64, "type_vocab_size": 3,
    "pad_token_id": 5, "layer_norm_eps": 1e-11, "initializer_range": 0.01, "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3})");
}

std::string refusal_of_text(const std::string& text) {
  try {
    parse_model_config(text, "some/config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const Json& json) {
  return refusal_of_text(json.dump());
}

Json with(Json json, const std::string& key, Json value) {
  json[key] = std::move(value);
  return json;
}

Json without(Json json, const std::string& key) {
  json.erase(key);
  return json;
}

// The file, and what of it is refused.
void expect_refused(const Json& json, const std::string& named) {
  const std::string message = refusal(json);
  EXPECT_NE(message.find("some/config.json"), message.npos) << named << ": " << message;
  EXPECT_NE(message.find(named), message.npos) << named << ": " << message;
}

void expect_each_required(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    EXPECT_EQ(refusal(without(json, key)), fmt::format("some/config.json: key '{}' is missing", key));
}

// The sizes that all four of the configs above have.
template <class Config>
void expect_sizes(const Config& c) {
  EXPECT_EQ(c.vocab_size, 96);
  EXPECT_EQ(c.hidden_size, 32);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.max_positions, 64);
}

TEST(LlamaConfigJson, IsReadKeyByKey) {
  const LlamaConfig c = read_llama_config(JsonConfig(llama_json().dump(), "config.json"));
  expect_sizes(c);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.ffn_size, 48);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.attention_dropout, 0.3);
  EXPECT_EQ(c.init_std, 0.01);
  EXPECT_FALSE(c.tie_embeddings);
  EXPECT_FALSE(c.qkv_bias);
}

TEST(LlamaConfigJson, BothSpellingsOfTheRotaryBase) {
  const auto theta = [](const Json& json) {
    return read_llama_config(JsonConfig(json.dump(), "config.json")).rope_theta;
  };
  EXPECT_EQ(theta(llama_json()), 500000.0);
  const Json fresh = without(llama_json(), "rope_theta");
  EXPECT_EQ(theta(fresh), 10000.0);
  EXPECT_EQ(theta(with(fresh, "rope_parameters", {{"rope_theta", 1234.5}, {"rope_type", "default"}})),
            1234.5);
  // The new spelling is what a new transformers reads when both are there.
  EXPECT_EQ(theta(with(llama_json(), "rope_parameters", {{"rope_theta", 1234.5}})), 1234.5);
  EXPECT_EQ(theta(with(llama_json(), "rope_scaling", nullptr)), 500000.0);
}

TEST(LlamaConfigJson, DefaultsOfTransformers) {
  Json json = llama_json();
  for (const char* key :
       {"num_key_value_heads", "head_dim", "rms_norm_eps", "initializer_range", "attention_dropout"})
    json.erase(key);
  const LlamaConfig c = read_llama_config(JsonConfig(json.dump(), "config.json"));
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.init_std, 0.02);
  EXPECT_EQ(c.attention_dropout, 0.0);
}

TEST(LlamaConfigJson, Qwen2HasBiases) {
  const Json json = with(llama_json(), "model_type", "qwen2");
  EXPECT_TRUE(read_llama_config(JsonConfig(json.dump(), "config.json")).qkv_bias);
}

TEST(LlamaConfigJson, NamesFileAndKeyOfWhatIsMissingOrWrong) {
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "num_hidden_layers",
                          "num_attention_heads", "intermediate_size", "max_position_embeddings"}) {
    EXPECT_EQ(refusal(without(llama_json(), key)), fmt::format("some/config.json: key '{}' is missing", key));
    EXPECT_EQ(refusal(with(llama_json(), key, nullptr)),
              fmt::format("some/config.json: key '{}' is missing", key));
  }
  EXPECT_EQ(refusal(with(llama_json(), "vocab_size", "many")),
            "some/config.json: 'vocab_size' is \"many\", expected a positive integer");
  EXPECT_EQ(refusal(with(llama_json(), "hidden_size", -32)),
            "some/config.json: 'hidden_size' is -32, expected a positive integer");
  EXPECT_EQ(refusal(with(llama_json(), "vocab_size", std::int64_t{1} << 61)),
            "some/config.json: 'vocab_size' is 2305843009213693952, expected at most 2147483647");
  EXPECT_EQ(refusal(with(llama_json(), "max_position_embeddings", (std::int64_t{1} << 24) + 1)),
            "some/config.json: 'max_position_embeddings' is 16777217, expected at most 16777216");
  EXPECT_EQ(refusal(with(llama_json(), "num_hidden_layers", 2.5)),
            "some/config.json: 'num_hidden_layers' is 2.5, expected a positive integer");
  EXPECT_EQ(refusal(with(llama_json(), "rms_norm_eps", "small")),
            "some/config.json: 'rms_norm_eps' is \"small\", expected a number");
  EXPECT_EQ(refusal(with(llama_json(), "rms_norm_eps", 0)),
            "some/config.json: 'rms_norm_eps' is 0, expected a number above 0");
  EXPECT_EQ(refusal(with(llama_json(), "tie_word_embeddings", 1)),
            "some/config.json: 'tie_word_embeddings' is 1, expected true or false");
  EXPECT_EQ(refusal(with(llama_json(), "hidden_act", 3)),
            "some/config.json: 'hidden_act' is 3, expected a text");
  EXPECT_EQ(refusal(with(llama_json(), "rope_parameters", {{"rope_theta", "x"}})),
            "some/config.json: 'rope_parameters.rope_theta' is \"x\", expected a number");
}

TEST(LlamaConfigJson, RefusesWhatItCannotDo) {
  expect_refused(with(llama_json(), "hidden_act", "gelu"), "hidden_act");
  expect_refused(with(llama_json(), "attention_bias", true), "attention_bias");
  expect_refused(with(llama_json(), "mlp_bias", true), "mlp_bias");
  expect_refused(with(llama_json(), "use_sliding_window", true), "use_sliding_window");
  expect_refused(with(llama_json(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}), "rope_scaling");
  expect_refused(with(llama_json(), "rope_parameters", {{"rope_theta", 1e4}, {"rope_type", "llama3"}}),
                 "rope_type");
  expect_refused(with(llama_json(), "num_key_value_heads", 3),
                 "multiple of 'num_key_value_heads', which is 3");
  expect_refused(with(llama_json(), "head_dim", 7), "'head_dim' is 7");
  expect_refused(with(llama_json(), "model_type", "mamba"), "'mamba'");
}

TEST(Gpt2ConfigJson, IsReadKeyByKey) {
  const Gpt2Config c = read_gpt2_config(JsonConfig(gpt2_json().dump(), "config.json"));
  expect_sizes(c);
  EXPECT_EQ(c.ffn_size, 128);  // n_inner left out: four times as wide
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.embedding_dropout, 0.1);
  EXPECT_EQ(c.residual_dropout, 0.2);
  EXPECT_EQ(c.attention_dropout, 0.3);
  EXPECT_TRUE(c.gelu_tanh);
  EXPECT_TRUE(c.tie_embeddings);
  const auto read = [](const Json& json) { return read_gpt2_config(JsonConfig(json.dump(), "config.json")); };
  EXPECT_EQ(read(with(gpt2_json(), "n_inner", 50)).ffn_size, 50);
  EXPECT_FALSE(read(with(gpt2_json(), "activation_function", "gelu")).gelu_tanh);
  EXPECT_FALSE(read(with(gpt2_json(), "tie_word_embeddings", false)).tie_embeddings);
  // transformers' default: left out is not the same as 0.
  EXPECT_EQ(read(without(gpt2_json(), "attn_pdrop")).attention_dropout, 0.1);
  // A key of ours: transformers has no such dropout.
  EXPECT_EQ(c.ffn_dropout, 0.0);
  const Gpt2Config megatron = read(with(gpt2_json(), "ffn_pdrop", 0.4));
  EXPECT_EQ(megatron.ffn_dropout, 0.4);
  EXPECT_EQ(read(Json::parse(make_gpt2(megatron)->config_json())).ffn_dropout, 0.4);
}

TEST(Gpt2ConfigJson, NamesFileAndKeyOfWhatIsWrong) {
  expect_each_required(gpt2_json(), {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"});
  expect_refused(with(gpt2_json(), "activation_function", "relu"), "activation_function is 'relu'");
  expect_refused(with(gpt2_json(), "scale_attn_weights", false), "scale_attn_weights");
  expect_refused(with(gpt2_json(), "scale_attn_by_inverse_layer_idx", true),
                 "scale_attn_by_inverse_layer_idx");
  expect_refused(with(gpt2_json(), "add_cross_attention", true), "add_cross_attention");
  expect_refused(with(gpt2_json(), "n_head", 5), "multiple of 'n_head', which is 5");
  expect_refused(with(gpt2_json(), "padded_vocab_size", 95),
                 "'padded_vocab_size' is 95, expected at least 'vocab_size', which is 96");
}

TEST(GptNeoxConfigJson, IsReadKeyByKey) {
  const GptNeoxConfig c = read_gpt_neox_config(JsonConfig(gpt_neox_json().dump(), "config.json"));
  expect_sizes(c);
  EXPECT_EQ(c.ffn_size, 48);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rotary_dim(), 4);
  EXPECT_EQ(c.rope_theta, 500.0);
  EXPECT_EQ(c.dropout, 0.1);
  EXPECT_EQ(c.attention_dropout, 0.3);
  EXPECT_FALSE(c.parallel_residual);
  EXPECT_TRUE(c.gelu_tanh);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_TRUE(c.attention_bias);
}

TEST(GptNeoxConfigJson, BothSpellingsOfTheRotaryKeysAndTheirDefaults) {
  const auto read = [](const Json& json) {
    return read_gpt_neox_config(JsonConfig(json.dump(), "config.json"));
  };
  const Json fresh = without(without(gpt_neox_json(), "rotary_pct"), "rotary_emb_base");
  EXPECT_EQ(read(fresh).rotary_dim(), 2);
  EXPECT_EQ(read(fresh).rope_theta, 10000.0);
  const Json nested = {{"partial_rotary_factor", 1.0}, {"rope_theta", 1234.5}, {"rope_type", "default"}};
  for (const Json& json : {fresh, gpt_neox_json()}) {
    EXPECT_EQ(read(with(json, "rope_parameters", nested)).rotary_dim(), 8);
    EXPECT_EQ(read(with(json, "rope_parameters", nested)).rope_theta, 1234.5);
  }
}

TEST(GptNeoxConfigJson, NamesFileAndKeyOfWhatIsWrong) {
  expect_each_required(gpt_neox_json(),
                       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                        "intermediate_size", "max_position_embeddings"});
  const auto refused = [](const std::string& key, const Json& value) {
    return refusal(with(gpt_neox_json(), key, value));
  };
  EXPECT_EQ(refused("hidden_act", "relu"),
            "some/config.json: hidden_act is 'relu', expected 'gelu', or 'gelu_new', 'gelu_fast' or "
            "'gelu_pytorch_tanh', which are one");
  EXPECT_EQ(
      refused("num_attention_heads", 5),
      "some/config.json: 'hidden_size' is 32, expected a multiple of 'num_attention_heads', which is 5");
  EXPECT_EQ(
      refused("rotary_pct", 0.4),
      "some/config.json: 'rotary_pct' is 0.4, which is 3 elements of heads of 8; expected an even number "
      "from 2 to 8");
  EXPECT_NE(refused("rope_parameters", {{"partial_rotary_factor", 1.5}})
                .find("'rope_parameters.partial_rotary_factor' is 1.5"),
            std::string::npos);
  EXPECT_NE(refused("rope_parameters", {{"rope_type", "yarn"}}).find("rope_type"), std::string::npos);
  EXPECT_NE(refused("rope_scaling", {{"factor", 2.0}}).find("rope_scaling"), std::string::npos);
}

TEST(BertConfigJson, IsReadKeyByKey) {
  const BertConfig c = read_bert_config(JsonConfig(bert_json().dump(), "config.json"));
  expect_sizes(c);
  EXPECT_EQ(c.ffn_size, 48);
  EXPECT_EQ(c.token_types, 3);
  EXPECT_EQ(c.padding_id, 5);
  EXPECT_EQ(c.norm_eps, 1e-11);
  EXPECT_EQ(c.init_std, 0.01);
  EXPECT_EQ(c.dropout, 0.2);
  EXPECT_EQ(c.attention_dropout, 0.3);
  EXPECT_TRUE(c.gelu_tanh);
  Json json = bert_json();
  for (const char* key : {"type_vocab_size", "pad_token_id", "layer_norm_eps", "hidden_act",
                          "hidden_dropout_prob", "attention_probs_dropout_prob"})
    json.erase(key);
  const BertConfig defaults = read_bert_config(JsonConfig(json.dump(), "config.json"));
  EXPECT_EQ(defaults.token_types, 2);
  EXPECT_EQ(defaults.padding_id, 0);
  EXPECT_EQ(defaults.norm_eps, 1e-12);
  EXPECT_EQ(defaults.dropout, 0.1);
  EXPECT_EQ(defaults.attention_dropout, 0.1);
  EXPECT_FALSE(defaults.gelu_tanh);
}

TEST(BertConfigJson, NamesFileAndKeyOfWhatIsWrong) {
  expect_each_required(bert_json(), {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                     "intermediate_size", "max_position_embeddings"});
  expect_refused(with(bert_json(), "hidden_act", "relu"), "hidden_act is 'relu', expected 'gelu'");
  expect_refused(with(bert_json(), "num_attention_heads", 5),
                 "'hidden_size' is 32, expected a multiple of 'num_attention_heads'");
  expect_refused(with(bert_json(), "pad_token_id", 96), "'pad_token_id' is 96, expected one of the 96 ids");
  expect_refused(with(bert_json(), "pad_token_id", "[PAD]"),
                 "'pad_token_id' is \"[PAD]\", expected an integer");
  expect_refused(with(bert_json(), "type_vocab_size", 0),
                 "'type_vocab_size' is 0, expected a positive integer");
  expect_refused(with(bert_json(), "position_embedding_type", "relative_key"), "position_embedding_type");
  expect_refused(with(bert_json(), "tie_word_embeddings", false), "tie_word_embeddings");
  expect_refused(with(bert_json(), "is_decoder", true), "is_decoder");
}

// What is written is read back the same.
TEST(ModelConfigJson, DropoutOfAttentionIsWritten) {
  for (const Json& json : {llama_json(), gpt2_json(), gpt_neox_json(), bert_json()}) {
    const Json written = Json::parse(parse_model_config(json.dump(), "config.json")->config_json());
    for (const char* key : {"attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"}) {
      EXPECT_EQ(written.contains(key), json.contains(key)) << json["model_type"] << " " << key;
      EXPECT_EQ(written.value(key, 0.3), 0.3) << json["model_type"];
    }
  }
}

// Dropout is of training alone: no key and no node of it elsewhere.
TEST(ModelConfigJson, OnlyTrainingDrops) {
  for (const Json& json : {llama_json(), gpt2_json(), gpt_neox_json(), bert_json()}) {
    const auto model = parse_model_config(json.dump(), "config.json");
    for (const bool training : {false, true}) {
      ModelBuilder builder(DType::f32, training);
      model->build(builder, builder.graph().add_input("ids", {DType::i32, {1, 2}}, Role::batch));
      EXPECT_EQ(builder.graph().find_input(kDropoutKeyInput) != kNoValue, training) << json["model_type"];
    }
  }
}

TEST(ModelConfigJson, RefusesWhatIsNoJsonObject) {
  EXPECT_EQ(refusal_of_text("").find("some/config.json: not a JSON file"), 0u);
  EXPECT_EQ(refusal_of_text("{\"model_type\": ").find("some/config.json: not a JSON file"), 0u);
  EXPECT_EQ(refusal_of_text("{\"hidden_size\": 1e999}").find("some/config.json: not a JSON file"), 0u);
  EXPECT_EQ(refusal_of_text("[1, 2]"),
            "some/config.json: found a JSON array, expected an object with the model's keys");
}

TEST(ModelConfigJson, MissingFileIsNamed) {
  try {
    load_model_config("/no/such/folder/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder/config.json"), std::string::npos);
  }
}

// What we write is what we read, all keys, also after a second round.
TEST(ModelConfigJson, WrittenConfigParsesBackToTheSame) {
  Json qwen2 = with(with(llama_json(), "model_type", "qwen2"), "tie_word_embeddings", true);
  Json odd = with(with(llama_json(), "rms_norm_eps", 1.1754943508222875e-05), "rope_theta", 12345.678);
  const Json padded = with(gpt2_json(), "padded_vocab_size", 128);
  Json erf = with(with(gpt2_json(), "activation_function", "gelu"), "tie_word_embeddings", false);
  for (const Json& json :
       {llama_json(), qwen2, odd, gpt2_json(), erf, padded, gpt_neox_json(), bert_json()}) {
    const std::string written = parse_model_config(json.dump(), "theirs")->config_json();
    EXPECT_EQ(parse_model_config(written, "ours")->config_json(), written);
    const Json ours = Json::parse(written);
    for (const auto& [key, value] : json.items()) {
      ASSERT_TRUE(ours.contains(key)) << key << " is lost in " << written;
      EXPECT_EQ(ours[key], value) << key;
    }
  }
  const Json llama = Json::parse(parse_model_config(llama_json().dump(), "theirs")->config_json());
  EXPECT_EQ(llama["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(llama["architectures"][0], "LlamaForCausalLM");
}

}  // namespace
}  // namespace tessera
