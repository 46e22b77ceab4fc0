#include "tessera/train/golden_check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/models/bert.h"
#include "tessera/runtime/host_tensor.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/from_config.h"
#include "tessera/train/golden_batches.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

struct Error2 {
  double difference = 0, reference = 0;  // squared L2 norms
  double relative() const { return std::sqrt(difference) / (reference > 0 ? std::sqrt(reference) : 1.0); }
};

Error2 compare(std::span<const float> found, std::span<const float> wanted) {
  TS_ASSERT(found.size() == wanted.size());
  Error2 e;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = static_cast<double>(found[i]) - static_cast<double>(wanted[i]);
    e.difference += d * d;
    e.reference += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return e;
}

std::vector<float> read_floats(const SafetensorsReader& file, const std::string& name) {
  const Shape shape = file.info(name).shape;
  std::vector<float> values(static_cast<std::size_t>(shape.num_elems()));
  file.read(name, {values.data(), DType::f32, shape});
  return values;
}

std::vector<double> read_doubles(const SafetensorsReader& file, const std::string& name) {
  const Shape shape = file.info(name).shape;
  std::vector<double> values(static_cast<std::size_t>(shape.num_elems()));
  file.read(name, {values.data(), DType::f64, shape});
  return values;
}

// The reference of a quantity we have `count` numbers of.
template <class Numbers>
Numbers checked_size(Numbers values, std::size_t count, const SafetensorsReader& file,
                     const std::string& name) {
  TS_CHECK(values.size() == count, "{}: tensor \"{}\": found {} numbers, expected {}", file.path().string(),
           name, values.size(), count);
  return values;
}

std::vector<float> read_reference(const SafetensorsReader& file, const std::string& name, std::size_t count) {
  return checked_size(read_floats(file, name), count, file, name);
}

// Softmax does not see a bias on the keys: its gradient is zero in real arithmetic and rounding noise
// in any other, and Adam turns noise into full steps. Under rotary positions the bias turns with its key
// and softmax does see it, but so little that bf16 is noise all the same, and of GPT-NeoX's heads only a part
// turns. Whether element `row` of a tensor is such a bias.
bool is_key_bias(const ExternalTensor& tensor, PrecisionName precision, std::int64_t row) {
  if (tensor.name.ends_with("k_proj.bias")) return precision == PrecisionName::bf16;
  if (tensor.name.ends_with("attn.c_attn.bias")) return row * 3 / tensor.num_rows == 1;
  if (tensor.name.ends_with("attention.self.key.bias")) return true;
  if (tensor.name.ends_with("query_key_value.bias"))
    return row * 3 * tensor.qkv_heads / tensor.num_rows % 3 == 1;
  return false;
}

// What the reference calls a tensor: transformers has "embed_out" in its files alone.
std::string reference_name(const ExternalTensor& tensor) {
  return tensor.name == "embed_out.weight" ? "lm_head.weight" : tensor.name;
}

struct KeyBiases {
  std::size_t count = 0;
  Error2 error;
};

// Takes the key biases out of two tensors: zeros in their place.
KeyBiases take_out_key_biases(const ExternalTensor& tensor, PrecisionName precision,
                              std::vector<float>& found, std::vector<float>& wanted) {
  std::vector<float> found_biases, wanted_biases;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!is_key_bias(tensor, precision, static_cast<std::int64_t>(i))) continue;
    found_biases.push_back(std::exchange(found[i], 0.0f));
    wanted_biases.push_back(std::exchange(wanted[i], 0.0f));
  }
  return {found_biases.size(), compare(found_biases, wanted_biases)};
}

void read_optimizer(const std::filesystem::path& path, OptimizerKeys& keys) {
  try {
    const nlohmann::json json = parse_json(read_file(path));
    keys.lr = json.at("lr");
    keys.beta1 = json.at("betas").at(0);
    keys.beta2 = json.at("betas").at(1);
    keys.eps = json.at("eps");
    keys.weight_decay = json.at("weight_decay");
    keys.clip_norm = json.at("clip_grad_norm");
  } catch (const nlohmann::json::exception& e) {
    fail("{}: {}; expected lr, betas, eps, weight_decay, clip_grad_norm", path.string(), e.what());
  }
}

// A prediction's logits for the whole batch: each dp rank has its rows of them.
struct LogitsOfRun {
  std::string name, reference;
  std::vector<float> values;

  void take(const TensorView& rows, int dp_rank) {
    const auto count = static_cast<std::size_t>(rows.num_elems());
    for (std::size_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(dp_rank) * count + i] =
          rows.dtype == DType::bf16 ? static_cast<float>(rows.as<Bf16>()[i]) : rows.as<float>()[i];
    }
  }
};

std::vector<LogitsOfRun> logits_of(const Graph& whole) {
  std::vector<LogitsOfRun> all;
  for (const Output& output : whole.outputs()) {
    const auto count = static_cast<std::size_t>(whole.type(output.value).shape.num_elems());
    const std::string reference = output.name == kLogitsOutput ? "logits" : "nsp_logits";
    all.push_back({output.name, reference, std::vector<float>(count, 0.0f)});
  }
  return all;
}

class Check {
 public:
  Check(const std::filesystem::path& folder, const RunConfig& config, const GoldenBatches& batches,
        Communicator* world)
      : config_(config),
        world_(world),
        batches_(batches),
        bounds_(golden_bounds(config.precision)),
        reference_(folder / "reference.safetensors"),
        weights_(folder / "model.safetensors"),
        model_(load_model_config(folder)),
        device_(make_device(config, world)) {}

  std::vector<GoldenLine> run() {
    TrainingStep step(*model_, training_graph_options(config_), layout_of(config_), 0, *device_, world_);
    check_ids(step.weights());
    load_external_weights(step.weights(), *model_, weights_);
    check_logits(step);
    train(step);
    check_final_weights(step);
    return std::move(lines_);
  }

 private:
  void line(std::string quantity, double error, double bound) {
    lines_.push_back({std::move(quantity), error, bound});
  }

  void check_ids(const WeightStore& weights) const {
    check_below(model_->vocab_size(), kIdsInput, "input_ids");
    check_below(model_->vocab_size(), kTargetsInput, "labels", kNotScored);
    check_below(2, kNextSentenceInput, "next_sentence_label", kNotScored);
    if (weights.contains("token_types.weight"))
      check_below(weights.shape("token_types.weight")[0], kTokenTypesInput, "token_type_ids");
  }
  // `or_else`: the one number below 0 that may stand there.
  void check_below(std::int64_t end, std::string_view input, const char* tensor,
                   std::int32_t or_else = 0) const {
    const auto found = std::ranges::find(batches_.inputs, input, &GoldenInput::name);
    if (found == batches_.inputs.end()) return;  // the model will say so
    for (std::size_t i = 0; i < found->values.size(); ++i) {
      const std::int32_t id = found->values[i];
      TS_CHECK((id >= 0 && id < end) || id == or_else, "{}: number {} of {} is {}, but the model has {} ids",
               batches_.file, i, tensor, id, end);
    }
  }

  // The logits of the whole batch, each dp rank with its rows of it, from the last stage.
  void check_logits(TrainingStep& step) {
    const Layout& layout = step.layout();
    const Graph whole =
        build_logits_graph(*model_, {batches_.batch, batches_.seq_len}, weight_dtype(config_.precision))
            .graph;
    const Coordinates at = step.ranks() ? step.ranks()->at() : Coordinates{};
    RankStages mine = rank_stages(partition_layout(whole, layout, step.stage_of_layer(), &step.state()),
                                  layout, step.stage_of_layer(), at.pp);
    const auto executor =
        make_executor(*device_, std::move(mine.graph),
                      {.num_slots = std::vector<int>(static_cast<std::size_t>(layout.chunks), 1),
                       .weights_of = &step.executor(),
                       .ranks = step.ranks()});
    StageRunner runner(*executor, std::move(mine.messages),
                       make_schedule(layout.schedule, layout.mesh.pp, layout.chunks, 1), step.ranks());
    const std::vector<BatchInput> inputs = batches_.step(0);
    const MicroBatch batch{inputs, batches_.batch / layout.mesh.dp, layout.mesh.dp, at.dp};
    std::vector<LogitsOfRun> outputs = logits_of(whole);
    runner.run_forward([&](const Instruction& i) { write_micro_batch(*executor, batch, i); },
                       [&](const Instruction&) {
                         for (LogitsOfRun& output : outputs) {
                           const HostTensor host(*device_, executor->output(output.name));
                           if (at.tp == 0) output.take(host.view(), at.dp);
                         }
                       });
    for (LogitsOfRun& output : outputs) {
      if (world_)
        world_->all_reduce(output.values.data(), std::ssize(output.values), DType::f32, Reduction::sum);
      const std::vector<float> wanted = read_reference(reference_, output.reference, output.values.size());
      line(output.reference, compare(output.values, wanted).relative(), bounds_.logits);
    }
  }

  void train(TrainingStep& step) {
    const auto steps = static_cast<std::size_t>(batches_.steps);
    const auto losses = checked_size(read_doubles(reference_, "loss"), steps, reference_, "loss");
    const auto norms = checked_size(read_doubles(reference_, "grad_norm"), steps, reference_, "grad_norm");
    double worst_loss = 0, worst_norm = 0;
    for (std::int64_t s = 0; s < batches_.steps; ++s) {
      const auto at = static_cast<std::size_t>(s);
      const double loss = step.accumulate_gradients(batches_.step(s), s);
      const double loss_error = std::abs(loss - losses[at]) / losses[at];
      if (s == 0) {
        line("loss of step 0", loss_error, bounds_.first_loss);
        check_gradients(step, norms[0]);
      } else {
        worst_loss = std::isnan(loss_error) ? loss_error : std::max(worst_loss, loss_error);
      }
      const double norm_error = std::abs(step.update(s, config_.optimizer.lr) - norms[at]) / norms[at];
      worst_norm = std::isnan(norm_error) ? norm_error : std::max(worst_norm, norm_error);
    }
    line(fmt::format("loss of steps 1 to {}", batches_.steps - 1), worst_loss, bounds_.later_loss);
    line(fmt::format("gradient norm of steps 0 to {}", batches_.steps - 1), worst_norm, bounds_.grad_norm);
  }

  void check_gradients(TrainingStep& step, double whole_norm) {
    for (const ExternalTensor& tensor : model_->external_tensors()) {
      const std::string name = "grad." + tensor.parameter;
      std::vector<float> found =
          external_piece(tensor, step.weights().read(name), step.weights().shape(name));
      std::vector<float> wanted = read_reference(reference_, "grad." + reference_name(tensor), found.size());
      const KeyBiases keys = take_out_key_biases(tensor, config_.precision, found, wanted);
      if (keys.count > 0) {
        line("grad " + tensor.name + " (keys, of the whole norm)",
             std::sqrt(keys.error.difference) / whole_norm, bounds_.gradient);
      }
      if (keys.count == found.size()) continue;
      line("grad " + tensor.name, compare(found, wanted).relative(), bounds_.gradient);
    }
  }

  void check_final_weights(TrainingStep& step) {
    for (const ExternalTensor& tensor : model_->external_tensors()) {
      const Shape shape = step.weights().shape(tensor.parameter);
      std::vector<float> found =
          external_piece(tensor, step.weights().read_parameter(tensor.parameter), shape);
      std::vector<float> wanted = read_reference(reference_, "final." + reference_name(tensor), found.size());
      if (take_out_key_biases(tensor, config_.precision, found, wanted).count == found.size()) continue;
      line("final " + tensor.name, compare(found, wanted).relative(), bounds_.final_weights);
    }
  }

  const RunConfig& config_;
  Communicator* const world_;
  const GoldenBatches& batches_;
  GoldenBounds bounds_;
  SafetensorsReader reference_;
  SafetensorsFolder weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Device> device_;
  std::vector<GoldenLine> lines_;
};

}  // namespace

// Those of bf16: twice the worst that PyTorch shows under the same policy, by tests/golden/measure_bf16.py.
GoldenBounds golden_bounds(PrecisionName precision) {
  if (precision == PrecisionName::fp32) return {};
  return {.logits = 2.6e-2,
          .gradient = 6.0e-2,
          .first_loss = 5.5e-4,
          .later_loss = 1.8e-2,
          .grad_norm = 0.83,
          .final_weights = 6.4e-2};
}

std::vector<GoldenLine> run_golden_check(const std::filesystem::path& folder, RunConfig config,
                                         Communicator* world) {
  TS_CHECK(config.device != DeviceName::null, "device=null computes nothing that could be checked");
  const GoldenBatches batches = read_golden_batches(folder / "batches.safetensors");
  read_optimizer(folder / "training.json", config.optimizer);
  config.train.seq_len = batches.seq_len;
  config.train.global_batch = batches.batch;
  const std::int64_t dp = config.parallel.dp;
  TS_CHECK(batches.batch % dp == 0, "parallel.dp = {} does not divide the {} sequences of {}", dp,
           batches.batch, (folder / "batches.safetensors").string());
  // A pipeline without micro-batches would be none.
  if (config.train.micro_batch == 0)
    config.train.micro_batch = config.parallel.pp > 1 ? 1 : batches.batch / dp;
  TS_CHECK(batches.batch / dp % config.train.micro_batch == 0,
           "train.micro_batch = {} does not divide the {} sequences of {} over parallel.dp = {}",
           config.train.micro_batch, batches.batch, (folder / "batches.safetensors").string(), dp);
  return Check(folder, config, batches, world).run();
}

}  // namespace tessera
