// The parameters of a model: how many, and which Hugging Face tensors they are made of.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/models/bert.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/models/llama.h"

namespace tessera {
namespace {

std::vector<Parameter> parameters_of(const Model& model) {
  ModelBuilder builder(DType::f32, /*training=*/true);
  const ValueId ids = builder.graph().add_input("ids", {DType::i32, {1, 2}}, Role::batch);
  model.build(builder, ids);
  return builder.parameters();
}

std::int64_t num_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const Parameter& p : parameters_of(model)) count += p.type.shape.num_elems();
  return count;
}

LlamaConfig small_llama(std::int64_t kv_heads, bool biases, bool tied) {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .layers = 3,
          .heads = 4,
          .kv_heads = kv_heads,
          .head_dim = 16,  // heads wider than hidden_size / heads
          .ffn_size = 40,
          .max_positions = 64,
          .tie_embeddings = tied,
          .qkv_bias = biases};
}

Gpt2Config small_gpt2(bool tied) {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .layers = 3,
          .heads = 4,
          .ffn_size = 80,
          .max_positions = 64,
          .tie_embeddings = tied};
}

GptNeoxConfig small_gpt_neox(bool parallel_residual, bool tied) {
  return {.vocab_size = 96,
          .hidden_size = 32,
          .layers = 3,
          .heads = 4,
          .ffn_size = 80,
          .max_positions = 64,
          .parallel_residual = parallel_residual,
          .attention_bias = parallel_residual,
          .tie_embeddings = tied};
}

BertConfig small_bert() {
  return {.vocab_size = 96, .hidden_size = 32, .layers = 3, .heads = 4, .ffn_size = 80, .max_positions = 64};
}

std::map<std::string, std::unique_ptr<Model>> small_models() {
  std::map<std::string, std::unique_ptr<Model>> models;
  for (bool tied : {false, true}) {
    const std::string suffix = tied ? " tied" : " untied";
    models["llama" + suffix] = make_llama(small_llama(4, false, tied));
    models["llama gqa" + suffix] = make_llama(small_llama(2, false, tied));
    models["qwen2" + suffix] = make_llama(small_llama(1, true, tied));
    models["gpt2" + suffix] = make_gpt2(small_gpt2(tied));
    models["gpt_neox" + suffix] = make_gpt_neox(small_gpt_neox(true, tied));
    models["gpt_neox one after the other, without biases" + suffix] =
        make_gpt_neox(small_gpt_neox(false, tied));
  }
  models["bert tied"] = make_bert(small_bert());
  return models;
}

TEST(ModelParameters, EveryRowIsOneExternalTensorsRow) {
  for (const auto& [name, model] : small_models()) {
    SCOPED_TRACE(name);
    std::map<std::string, std::vector<int>> uses;  // of every row
    for (const Parameter& p : parameters_of(*model)) {
      uses[p.name].assign(static_cast<std::size_t>(p.type.shape[0]), 0);
    }
    std::set<std::string> names;
    for (const ExternalTensor& tensor : model->external_tensors()) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name << " occurs twice";
      ASSERT_TRUE(uses.contains(tensor.parameter))
          << tensor.name << " is a piece of unknown " << tensor.parameter;
      std::vector<int>& rows = uses[tensor.parameter];
      ASSERT_GT(tensor.num_rows, 0);
      ASSERT_LE(tensor.first_row + tensor.num_rows, static_cast<std::int64_t>(rows.size())) << tensor.name;
      for (std::int64_t r = 0; r < tensor.num_rows; ++r)
        ++rows[static_cast<std::size_t>(tensor.first_row + r)];
    }
    for (const auto& [parameter, rows] : uses) {
      for (std::size_t r = 0; r < rows.size(); ++r) EXPECT_EQ(rows[r], 1) << parameter << " row " << r;
    }
  }
}

TEST(ModelParameters, TiedHeadIsNoTensorOfItsOwn) {
  for (const auto& [name, model] : small_models()) {
    bool has_head = false;
    for (const ExternalTensor& tensor : model->external_tensors())
      has_head |= tensor.name == "lm_head.weight" || tensor.name == "embed_out.weight";
    EXPECT_EQ(has_head, name.ends_with("untied")) << name;
  }
}

TEST(ModelParameters, OnlyMatricesOfConv1dAreTransposed) {
  for (const auto& [name, model] : small_models()) {
    for (const ExternalTensor& t : model->external_tensors()) {
      const bool conv1d = t.name.find(".c_") != std::string::npos && t.name.ends_with(".weight");
      EXPECT_EQ(t.transposed, conv1d) << name << " " << t.name;
    }
  }
}

TEST(ModelParameters, CountOfLlama2ToTheUnit) {
  const LlamaConfig llama2{.vocab_size = 32000,
                           .hidden_size = 4096,
                           .layers = 32,
                           .heads = 32,
                           .kv_heads = 32,
                           .head_dim = 128,
                           .ffn_size = 11008,
                           .max_positions = 4096};
  EXPECT_EQ(num_parameters(*make_llama(llama2)), 6738415616);
}

TEST(ModelParameters, CountOfGpt2ToTheUnit) {
  const Gpt2Config gpt2{.vocab_size = 50257,
                        .hidden_size = 768,
                        .layers = 12,
                        .heads = 12,
                        .ffn_size = 3072,
                        .max_positions = 1024};
  EXPECT_EQ(num_parameters(*make_gpt2(gpt2)), 124439808);
}

// With the shapes and padded vocabularies of NeMo's GPT-3 scripts: 22.988, 45.539 and 174.641 billion.
TEST(ModelParameters, CountsOfGpt3ToTheUnit) {
  Gpt2Config gpt3{.vocab_size = 50257,
                  .padded_vocab_size = 51200,
                  .hidden_size = 8192,
                  .layers = 28,
                  .heads = 64,
                  .ffn_size = 32768,
                  .max_positions = 2048,
                  .gelu_tanh = false};
  EXPECT_EQ(num_parameters(*make_gpt2(gpt3)), 22987784192);
  gpt3.layers = 56;
  EXPECT_EQ(num_parameters(*make_gpt2(gpt3)), 45539344384);
  gpt3.padded_vocab_size = 53248;
  gpt3.hidden_size = 12288;
  gpt3.layers = gpt3.heads = 96;
  gpt3.ffn_size = 49152;
  EXPECT_EQ(num_parameters(*make_gpt2(gpt3)), 174641012736);
}

// What is added to the residual stream starts smaller, the deeper the model.
TEST(ModelParameters, Gpt2ScalesOutputProjectionsByItsDepth) {
  Gpt2Config config = small_gpt2(true);
  config.layers = 8;
  config.init_std = 0.021;
  for (const Parameter& p : parameters_of(*make_gpt2(config))) {
    if (p.init.kind != Init::Kind::normal) continue;
    const bool output = p.name.ends_with(".out.weight") || p.name.ends_with(".down.weight");
    EXPECT_DOUBLE_EQ(p.init.value, output ? 0.021 / 4 : 0.021) << p.name;
  }
}

// As transformers counts BertForPreTraining with the config of bert-large-uncased.
TEST(ModelParameters, CountOfBertLargeToTheUnit) {
  const BertConfig bert_large{.vocab_size = 30522,
                              .hidden_size = 1024,
                              .layers = 24,
                              .heads = 16,
                              .ffn_size = 4096,
                              .max_positions = 512};
  EXPECT_EQ(num_parameters(*make_bert(bert_large)), 336226108);
}

TEST(ModelParameters, CountsOfGptNeoxToTheUnit) {
  const GptNeoxConfig pythia{.vocab_size = 50432,
                             .hidden_size = 4096,
                             .layers = 32,
                             .heads = 32,
                             .ffn_size = 16384,
                             .max_positions = 2048};
  EXPECT_EQ(num_parameters(*make_gpt_neox(pythia)), 6857302016);
  const GptNeoxConfig neox20b{.vocab_size = 50432,
                              .hidden_size = 6144,
                              .layers = 44,
                              .heads = 64,
                              .ffn_size = 24576,
                              .max_positions = 2048};
  EXPECT_EQ(num_parameters(*make_gpt_neox(neox20b)), 20554567680);
}

}  // namespace
}  // namespace tessera
