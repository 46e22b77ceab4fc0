#include "tessera/train/from_config.h"

#include <thread>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/backend/null/null_device.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"

namespace tessera {
namespace {

LlamaConfig llama_config(const ArchitectureKeys& keys, double init_std) {
  LlamaConfig c;
  c.vocab_size = keys.vocab_size;
  c.hidden_size = keys.hidden_size;
  c.layers = keys.layers;
  c.heads = keys.attention.heads;
  c.kv_heads = keys.attention.kv_heads;
  c.head_dim = keys.attention.head_dim;
  c.ffn_size = keys.ffn_size;
  c.max_positions = keys.max_positions;
  c.norm_eps = keys.norm_eps;
  c.rope_theta = keys.attention.rope_theta;
  c.tie_embeddings = keys.tie_embeddings;
  c.qkv_bias = keys.attention.qkv_bias || keys.type == ModelTypeName::qwen2;
  c.init_std = init_std;
  return c;
}

Gpt2Config gpt2_config(const ArchitectureKeys& keys, double init_std) {
  Gpt2Config c;
  c.vocab_size = keys.vocab_size;
  c.hidden_size = keys.hidden_size;
  c.layers = keys.layers;
  c.heads = keys.attention.heads;
  c.ffn_size = keys.ffn_size;
  c.max_positions = keys.max_positions;
  c.norm_eps = keys.norm_eps;
  c.gelu_tanh = keys.activation != ActivationName::gelu_erf;
  c.tie_embeddings = keys.tie_embeddings;
  c.init_std = init_std;
  return c;
}

}  // namespace

std::unique_ptr<Device> make_device(const RunConfig& config) {
  if (config.device == DeviceName::null) return make_null_device();
  const auto all = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  return make_cpu_device(static_cast<int>(config.threads > 0 ? config.threads : std::max<std::int64_t>(1, all)));
}

std::unique_ptr<Device> make_computing_device(const RunConfig& config) {
  TS_CHECK(config.device != DeviceName::null,
           "device: found null, expected cpu: the null device computes nothing, it is for `tessera plan`");
  return make_device(config);
}

std::unique_ptr<Model> make_model(const RunConfig& config, std::int64_t tokenizer_vocab_size) {
  if (!config.model.config.empty()) return load_model_config(config.model.config);
  const ArchitectureKeys keys = resolved_architecture(config, tokenizer_vocab_size);
  if (keys.type == ModelTypeName::gpt2) return make_gpt2(gpt2_config(keys, config.model.init_std));
  return make_llama(llama_config(keys, config.model.init_std));
}

DType weight_dtype(PrecisionName precision) {
  return precision == PrecisionName::bf16 ? DType::bf16 : DType::f32;
}

TrainingGraphOptions training_graph_options(const RunConfig& config) {
  TrainingGraphOptions options;
  options.shape = {config.train.micro_batch, config.train.seq_len};
  options.dtype = weight_dtype(config.precision);
  const OptimizerKeys& o = config.optimizer;
  options.adamw = {o.beta1, o.beta2, o.eps, o.weight_decay, o.decay_1d, o.clip_norm};
  options.recompute = config.recompute == RecomputeName::selective ? Recompute::selective : Recompute::none;
  return options;
}

}  // namespace tessera
