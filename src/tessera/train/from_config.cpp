#include "tessera/train/from_config.h"

#include <charconv>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/backend/cuda/cuda_device.h"
#include "tessera/backend/null/null_device.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/usable_cores.h"
#include "tessera/comm/host_name.h"
#include "tessera/models/bert.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/models/llama.h"

namespace tessera {
namespace {

// What every family has.
template <class Config>
Config with_sizes(const ArchitectureKeys& keys, double init_std) {
  Config c;
  c.vocab_size = keys.vocab_size;
  c.hidden_size = keys.hidden_size;
  c.layers = keys.layers;
  c.heads = keys.attention.heads;
  c.ffn_size = keys.ffn_size;
  c.max_positions = keys.max_positions;
  c.norm_eps = keys.norm_eps;
  c.init_std = init_std;
  return c;
}

LlamaConfig llama_config(const ArchitectureKeys& keys, double init_std) {
  auto c = with_sizes<LlamaConfig>(keys, init_std);
  c.kv_heads = keys.attention.kv_heads;
  c.head_dim = keys.attention.head_dim;
  c.rope_theta = keys.attention.rope_theta;
  c.tie_embeddings = keys.tie_embeddings;
  c.qkv_bias = keys.attention.qkv_bias || keys.type == ModelTypeName::qwen2;
  return c;
}

Gpt2Config gpt2_config(const ArchitectureKeys& keys, double init_std) {
  auto c = with_sizes<Gpt2Config>(keys, init_std);
  c.gelu_tanh = keys.activation != ActivationName::gelu_erf;
  c.tie_embeddings = keys.tie_embeddings;
  c.embedding_dropout = c.residual_dropout = c.attention_dropout = keys.dropout;
  c.ffn_dropout = keys.ffn_dropout;
  c.padded_vocab_size =
      (keys.vocab_size + keys.vocab_multiple - 1) / keys.vocab_multiple * keys.vocab_multiple;
  return c;
}

GptNeoxConfig gpt_neox_config(const ArchitectureKeys& keys, double init_std) {
  auto c = with_sizes<GptNeoxConfig>(keys, init_std);
  c.rotary_fraction = keys.attention.rotary_fraction;
  c.rope_theta = keys.attention.rope_theta;
  c.parallel_residual = keys.parallel_residual;
  c.gelu_tanh = keys.activation != ActivationName::gelu_erf;
  c.tie_embeddings = keys.tie_embeddings;
  c.dropout = c.attention_dropout = keys.dropout;
  return c;
}

BertConfig bert_config(const ArchitectureKeys& keys, double init_std) {
  auto c = with_sizes<BertConfig>(keys, init_std);
  c.token_types = keys.token_types;
  c.gelu_tanh = keys.activation != ActivationName::gelu_erf;
  c.dropout = c.attention_dropout = keys.dropout;
  return c;
}

// The names of a config and the kinds they stand for are in the same order.
static_assert(static_cast<int>(ScheduleName::interleaved) == static_cast<int>(ScheduleKind::interleaved));
static_assert(static_cast<int>(OptimizerName::sgd) == static_cast<int>(OptimizerKind::sgd));
static_assert(static_cast<int>(AdamWFormName::transformers) == static_cast<int>(AdamWForm::transformers));
static_assert(static_cast<int>(DecayName::cosine) == static_cast<int>(Decay::cosine));
static_assert(static_cast<int>(WarmupName::between) == static_cast<int>(Warmup::between));

OptimizerOptions optimizer_options(const OptimizerKeys& keys) {
  OptimizerOptions options;
  options.kind = static_cast<OptimizerKind>(keys.name);
  options.beta1 = keys.beta1;
  options.beta2 = keys.beta2;
  options.eps = keys.eps;
  options.form = static_cast<AdamWForm>(keys.form);
  options.weight_decay = keys.weight_decay;
  options.decay_1d = keys.decay_1d;
  options.no_decay = keys.no_decay;
  options.clip_norm = keys.clip_norm;
  options.momentum = keys.momentum;
  options.trust_clip = keys.trust_clip;
  options.state_dtype = weight_dtype(keys.state_dtype);
  return options;
}

// "10,12" -> {10, 12}
std::vector<int> parse_counts(std::string_view key, std::string_view text) {
  std::vector<int> counts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    int count = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + end, count);
    TS_CHECK(error == std::errc{} && last == text.data() + end,
             "{}: found '{}', expected counts such as 10,12,12,10", key, text.substr(0, end));
    counts.push_back(count);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return counts;
}

// So many ranks share the cores, unless the config says how many threads each has.
std::unique_ptr<Device> make_device(const RunConfig& config, std::int64_t sharers, int rank_on_host) {
  const std::int64_t share = std::max<std::int64_t>(1, num_usable_cores() / sharers);
  auto cpu = make_cpu_device(static_cast<int>(config.threads > 0 ? config.threads : share));
  if (config.device != DeviceName::cuda) return cpu;
  CudaOptions options{.graphs = config.cuda.graphs,
                      .cudnn = config.cuda.cudnn,
                      .attention_scratch_bytes = config.cuda.attention_scratch_mb << 20};
  if (!config.cuda.tuning.empty()) {
    options.choices = read_file(config.cuda.tuning);
    options.choices_file = config.cuda.tuning;
  }
  return make_cuda_device(rank_on_host % std::max(1, num_cuda_gpus()), std::move(cpu), options);
}

void refuse_null(const RunConfig& config) {
  TS_CHECK(
      config.device != DeviceName::null,
      "device: found null, expected cpu or cuda: the null device computes nothing, it is for `tessera plan`");
}

}  // namespace

std::unique_ptr<Device> make_device(const RunConfig& config, Communicator* world) {
  if (config.device == DeviceName::null) return make_null_device();
  // Without a world the ranks are threads that the caller starts.
  const std::int64_t sharers =
      world ? ranks_on_same_cores(*world) : config.parallel.tp * config.parallel.pp * config.parallel.dp;
  return make_device(config, sharers, world ? rank_on_host(*world) : 0);
}

std::unique_ptr<Device> make_computing_device(const RunConfig& config, Communicator* world) {
  refuse_null(config);
  return make_device(config, world);
}

std::unique_ptr<Device> make_device_of_rank(const RunConfig& config, int rank_on_host) {
  refuse_null(config);
  return make_device(config, 1, rank_on_host);
}

std::unique_ptr<Device> make_planning_device(const RunConfig& config) {
  const bool stands_in = config.device == DeviceName::cuda && num_cuda_gpus() == 0;
  return stands_in ? make_null_device() : make_device(config);
}

std::unique_ptr<Model> make_model(const RunConfig& config, std::int64_t tokenizer_vocab_size) {
  if (!config.model.config.empty()) return load_model_config(config.model.config);
  const ArchitectureKeys keys = resolved_architecture(config, tokenizer_vocab_size);
  const double init_std = config.model.init_std;
  switch (keys.type) {
    case ModelTypeName::gpt2:
      return make_gpt2(gpt2_config(keys, init_std));
    case ModelTypeName::gpt_neox:
      return make_gpt_neox(gpt_neox_config(keys, init_std));
    case ModelTypeName::bert:
      return make_bert(bert_config(keys, init_std));
    case ModelTypeName::llama:
    case ModelTypeName::qwen2:
      break;
  }
  return make_llama(llama_config(keys, init_std));
}

DType weight_dtype(PrecisionName precision) {
  return precision == PrecisionName::bf16 ? DType::bf16 : DType::f32;
}

TrainingGraphOptions training_graph_options(const RunConfig& config) {
  TrainingGraphOptions options;
  options.shape = {config.train.micro_batch, config.train.seq_len};
  options.dtype = weight_dtype(config.precision);
  options.optimizer = optimizer_options(config.optimizer);
  if (config.optimizer.gradient_dtype == PrecisionName::bf16)
    options.gradients = GradientStorage::rounded_products;
  options.optimizer.parameter_norm = config.metrics.tags == MetricTags::nemo;
  options.recompute = parse_recompute(config.recompute, "recompute");
  return options;
}

LearningRateSchedule learning_rate_schedule(const RunConfig& config) {
  LearningRateSchedule s;
  s.peak = config.optimizer.lr;
  s.floor = config.schedule.min_lr;
  s.warmup_steps = config.schedule.warmup_steps;
  s.decay_steps = decay_end(config.schedule, config.train.steps);
  s.decay = static_cast<Decay>(config.schedule.decay);
  s.warmup = static_cast<Warmup>(config.schedule.warmup);
  return s;
}

Layout layout_of(const RunConfig& config) {
  const ParallelKeys& p = config.parallel;
  Layout layout;
  layout.mesh = {static_cast<int>(p.pp), static_cast<int>(p.dp), static_cast<int>(p.tp)};
  layout.sequence = p.sequence;
  layout.zero1 = p.zero1;
  if (p.zero1_group != 0) {
    TS_CHECK(p.zero1, "parallel.zero1_group = {} needs parallel.zero1 = true", p.zero1_group);
    TS_CHECK(p.dp % p.zero1_group == 0, "parallel.zero1_group = {} does not divide parallel.dp = {}",
             p.zero1_group, p.dp);
    // A group of one has all of the state: that is no ZeRO-1.
    layout.zero1 = p.zero1_group > 1;
    if (layout.zero1) layout.mesh.zero1_group = static_cast<int>(p.zero1_group);
  }
  layout.bucket_bytes = p.bucket_mb << 20;
  layout.schedule = static_cast<ScheduleKind>(config.pipeline.schedule);
  layout.chunks = static_cast<int>(config.pipeline.chunks);
  layout.layers_per_stage = parse_counts("pipeline.layers", config.pipeline.layers);
  layout.num_micro_batches = static_cast<int>(config.train.global_batch / (config.train.micro_batch * p.dp));
  return layout;
}

}  // namespace tessera
