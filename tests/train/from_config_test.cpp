// Every key of a config reaches what it is for: what a run is made of is compared with values that are none
// of the defaults.
#include "tessera/train/from_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

RunConfig config_with(const std::vector<std::string>& keys) {
  RunConfig config;
  apply_overrides(config, keys);
  return config;
}

const std::vector<std::string> kSizes = {
    "model.hidden_size=48", "model.layers=3",         "model.heads=6",        "model.ffn_size=80",
    "model.vocab_size=101", "model.max_positions=40", "model.norm_eps=0.003", "model.init_std=0.07"};

// The model that kSizes and `keys` describe, as its config.json, whose names are transformers'.
nlohmann::json model_json(std::vector<std::string> keys) {
  keys.insert(keys.begin(), kSizes.begin(), kSizes.end());
  return nlohmann::json::parse(make_model(config_with(keys), 0)->config_json());
}

TEST(FromConfig, ALlama) {
  const nlohmann::json found = model_json(
      {"model.kv_heads=2", "model.head_dim=10", "model.rope_theta=777", "model.tie_embeddings=true"});
  EXPECT_EQ(found["model_type"], "llama");
  EXPECT_EQ(found["hidden_size"], 48);
  EXPECT_EQ(found["num_hidden_layers"], 3);
  EXPECT_EQ(found["num_attention_heads"], 6);
  EXPECT_EQ(found["num_key_value_heads"], 2);
  EXPECT_EQ(found["head_dim"], 10);
  EXPECT_EQ(found["intermediate_size"], 80);
  EXPECT_EQ(found["vocab_size"], 101);
  EXPECT_EQ(found["max_position_embeddings"], 40);
  EXPECT_EQ(found["rms_norm_eps"], 0.003);
  EXPECT_EQ(found["rope_theta"], 777);
  EXPECT_EQ(found["tie_word_embeddings"], true);
  EXPECT_EQ(found["initializer_range"], 0.07);
  EXPECT_EQ(model_json({"model.qkv_bias=true"})["model_type"], "qwen2");
  EXPECT_EQ(model_json({"model.type=qwen2"})["model_type"], "qwen2");
}

TEST(FromConfig, AGpt2) {
  const nlohmann::json found =
      model_json({"model.type=gpt2", "model.activation=gelu_erf", "model.dropout=0.3",
                  "model.ffn_dropout=0.2", "model.vocab_multiple=64", "model.tie_embeddings=true"});
  EXPECT_EQ(found["model_type"], "gpt2");
  EXPECT_EQ(found["n_embd"], 48);
  EXPECT_EQ(found["n_layer"], 3);
  EXPECT_EQ(found["n_head"], 6);
  EXPECT_EQ(found["n_inner"], 80);
  EXPECT_EQ(found["n_positions"], 40);
  EXPECT_EQ(found["vocab_size"], 101);
  EXPECT_EQ(found["padded_vocab_size"], 128);
  EXPECT_EQ(found["layer_norm_epsilon"], 0.003);
  EXPECT_EQ(found["activation_function"], "gelu");
  EXPECT_EQ(found["attn_pdrop"], 0.3);
  EXPECT_EQ(found["embd_pdrop"], 0.3);
  EXPECT_EQ(found["resid_pdrop"], 0.3);
  EXPECT_EQ(found["ffn_pdrop"], 0.2);
  EXPECT_EQ(found["tie_word_embeddings"], true);
  EXPECT_EQ(found["initializer_range"], 0.07);
  EXPECT_EQ(model_json({"model.type=gpt2", "model.activation=gelu_tanh"})["activation_function"], "gelu_new");
}

TEST(FromConfig, AGptNeox) {
  const nlohmann::json found = model_json(
      {"model.type=gpt_neox", "model.activation=gelu_erf", "model.dropout=0.3", "model.rope_theta=777",
       "model.rotary_fraction=0.5", "model.parallel_residual=false", "model.tie_embeddings=true"});
  EXPECT_EQ(found["model_type"], "gpt_neox");
  EXPECT_EQ(found["hidden_size"], 48);
  EXPECT_EQ(found["num_hidden_layers"], 3);
  EXPECT_EQ(found["num_attention_heads"], 6);
  EXPECT_EQ(found["intermediate_size"], 80);
  EXPECT_EQ(found["max_position_embeddings"], 40);
  EXPECT_EQ(found["vocab_size"], 101);
  EXPECT_EQ(found["layer_norm_eps"], 0.003);
  EXPECT_EQ(found["hidden_act"], "gelu");
  EXPECT_EQ(found["hidden_dropout"], 0.3);
  EXPECT_EQ(found["attention_dropout"], 0.3);
  EXPECT_EQ(found["rotary_emb_base"], 777);
  EXPECT_EQ(found["rotary_pct"], 0.5);
  EXPECT_EQ(found["use_parallel_residual"], false);
  EXPECT_EQ(found["tie_word_embeddings"], true);
  EXPECT_EQ(found["initializer_range"], 0.07);
}

TEST(FromConfig, ABert) {
  const nlohmann::json found = model_json(
      {"model.type=bert", "model.activation=gelu_tanh", "model.dropout=0.3", "model.token_types=5"});
  EXPECT_EQ(found["model_type"], "bert");
  EXPECT_EQ(found["hidden_size"], 48);
  EXPECT_EQ(found["num_hidden_layers"], 3);
  EXPECT_EQ(found["num_attention_heads"], 6);
  EXPECT_EQ(found["intermediate_size"], 80);
  EXPECT_EQ(found["max_position_embeddings"], 40);
  EXPECT_EQ(found["vocab_size"], 101);
  EXPECT_EQ(found["layer_norm_eps"], 0.003);
  EXPECT_EQ(found["hidden_act"], "gelu_new");
  EXPECT_EQ(found["hidden_dropout_prob"], 0.3);
  EXPECT_EQ(found["attention_probs_dropout_prob"], 0.3);
  EXPECT_EQ(found["type_vocab_size"], 5);
  EXPECT_EQ(found["initializer_range"], 0.07);
}

TEST(FromConfig, TheOptimizer) {
  const TrainingGraphOptions options = training_graph_options(config_with(
      {"optimizer.name=sgd", "optimizer.form=transformers", "optimizer.beta1=0.81", "optimizer.beta2=0.82",
       "optimizer.eps=0.003", "optimizer.weight_decay=0.04", "optimizer.clip_norm=5",
       "optimizer.decay_1d=true", "optimizer.no_decay=[one,two]", "optimizer.momentum=0.6",
       "optimizer.trust_clip=false", "optimizer.state_dtype=bf16", "optimizer.gradient_dtype=bf16",
       "metrics.tags=nemo", "precision=bf16", "train.micro_batch=7", "train.seq_len=33", "recompute=full"}));
  const OptimizerOptions& optimizer = options.optimizer;
  EXPECT_EQ(optimizer.kind, OptimizerKind::sgd);
  EXPECT_EQ(optimizer.form, AdamWForm::transformers);
  EXPECT_EQ(optimizer.beta1, 0.81);
  EXPECT_EQ(optimizer.beta2, 0.82);
  EXPECT_EQ(optimizer.eps, 0.003);
  EXPECT_EQ(optimizer.weight_decay, 0.04);
  EXPECT_EQ(optimizer.clip_norm, 5);
  EXPECT_TRUE(optimizer.decay_1d);
  EXPECT_EQ(optimizer.no_decay, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(optimizer.momentum, 0.6);
  EXPECT_FALSE(optimizer.trust_clip);
  EXPECT_EQ(optimizer.state_dtype, DType::bf16);
  EXPECT_TRUE(optimizer.parameter_norm);
  EXPECT_EQ(options.gradients, GradientStorage::rounded_products);
  EXPECT_EQ(options.dtype, DType::bf16);
  EXPECT_EQ(options.shape.batch, 7);
  EXPECT_EQ(options.shape.seq_len, 33);
  EXPECT_TRUE(options.recompute.full);
  EXPECT_EQ(training_graph_options(config_with({"recompute=gelu,rope"})).recompute.ops,
            (std::set<Op>{Op::gelu, Op::rope}));
  EXPECT_EQ(training_graph_options(config_with({"optimizer.name=lamb"})).optimizer.kind, OptimizerKind::lamb);
}

TEST(FromConfig, TheSchedule) {
  const LearningRateSchedule schedule = learning_rate_schedule(
      config_with({"optimizer.lr=0.25", "schedule.min_lr=0.03", "schedule.warmup_steps=11", "train.steps=100",
                   "schedule.constant_steps=20", "schedule.decay=linear", "schedule.warmup=between"}));
  EXPECT_EQ(schedule.peak, 0.25);
  EXPECT_EQ(schedule.floor, 0.03);
  EXPECT_EQ(schedule.warmup_steps, 11);
  EXPECT_EQ(schedule.decay_steps, 80);
  EXPECT_EQ(schedule.decay, Decay::linear);
  EXPECT_EQ(schedule.warmup, Warmup::between);
  EXPECT_EQ(learning_rate_schedule(config_with({"schedule.decay_steps=70"})).decay_steps, 70);
  EXPECT_EQ(learning_rate_schedule(config_with({"schedule.warmup=from_zero"})).warmup, Warmup::from_zero);
  EXPECT_EQ(learning_rate_schedule(config_with({"schedule.decay=constant"})).decay, Decay::constant);
}

TEST(FromConfig, TheLayout) {
  const Layout layout = layout_of(config_with(
      {"parallel.tp=2", "parallel.pp=3", "parallel.dp=4", "parallel.sequence=true", "parallel.zero1=true",
       "parallel.zero1_group=2", "parallel.bucket_mb=5", "pipeline.schedule=interleaved", "pipeline.chunks=2",
       "pipeline.layers=1,2,3,4,5,6", "train.micro_batch=2", "train.global_batch=48"}));
  EXPECT_EQ(layout.mesh.tp, 2);
  EXPECT_EQ(layout.mesh.pp, 3);
  EXPECT_EQ(layout.mesh.dp, 4);
  EXPECT_EQ(layout.mesh.zero1_group, 2);
  EXPECT_TRUE(layout.sequence);
  EXPECT_TRUE(layout.zero1);
  EXPECT_EQ(layout.bucket_bytes, 5 * 1024 * 1024);
  EXPECT_EQ(layout.schedule, ScheduleKind::interleaved);
  EXPECT_EQ(layout.chunks, 2);
  EXPECT_EQ(layout.layers_per_stage, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(layout.num_micro_batches, 6);
  EXPECT_EQ(layout_of(config_with({"pipeline.schedule=gpipe"})).schedule, ScheduleKind::gpipe);
}

}  // namespace
}  // namespace tessera
