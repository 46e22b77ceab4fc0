#include "tessera/train/optimizer_keys.h"

#include "tessera/base/error.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

constexpr NumberRange kNotNegative{.min = 0};
constexpr NumberRange kFraction{.min = 0, .max = 1, .below_max = true};

std::vector<std::string> optimizer_names() {
  return {"adamw", "lamb", "sgd"};
}

}  // namespace

std::string optimizer_text(OptimizerName name) {
  return optimizer_names()[static_cast<std::size_t>(name)];
}

void declare_optimizer(ConfigSchema& s, OptimizerKeys& optimizer) {
  s.choice("optimizer.name", &optimizer.name, "update rule", optimizer_names());
  s.choice("optimizer.form", &optimizer.form,
           "adamw: torch.optim's, or transformers' (eps beside the uncorrected root, decay after the step)",
           {"torch", "transformers"});
  s.number("optimizer.lr", &optimizer.lr, "peak learning rate", kNotNegative);
  s.number("optimizer.beta1", &optimizer.beta1, "decay of the first moment", kFraction);
  s.number("optimizer.beta2", &optimizer.beta2, "decay of the second moment", kFraction);
  // Roots that a GPU takes for zero are below 1e-16, their correction included.
  s.number("optimizer.eps", &optimizer.eps, "added to the root of the second moment", {.min = 1e-15});
  s.number("optimizer.weight_decay", &optimizer.weight_decay, "decay of the weights", kNotNegative);
  s.number("optimizer.clip_norm", &optimizer.clip_norm, "largest global gradient norm; 0: off", kNotNegative);
  s.boolean("optimizer.decay_1d", &optimizer.decay_1d, "decay norms' weights and biases too");
  s.list("optimizer.no_decay", &optimizer.no_decay,
         "parameters with one of these in their name do not decay, e.g. bias,norm");
  s.number("optimizer.momentum", &optimizer.momentum, "of sgd", kFraction);
  s.boolean("optimizer.trust_clip", &optimizer.trust_clip, "lamb never lengthens a step, only shortens it");
  s.choice("optimizer.state_dtype", &optimizer.state_dtype,
           "of moments and of the weights that are updated; bf16: no fp32 weights, and adamw rounds "
           "stochastically",
           {"fp32", "bf16"});
  s.choice(
      "optimizer.gradient_dtype", &optimizer.gradient_dtype,
      "bf16: linear layers' gradients are stored rounded, with precision bf16 and one micro-batch a step",
      {"fp32", "bf16"});
}

void declare_schedule(ConfigSchema& s, ScheduleKeys& schedule) {
  s.choice("schedule.decay", &schedule.decay, "shape after the warm-up", {"constant", "linear", "cosine"});
  s.integer("schedule.warmup_steps", &schedule.warmup_steps, "steps of linear warm-up", {.min = 0});
  s.choice("schedule.warmup", &schedule.warmup,
           "share of lr in step t, from 0, of w: to_peak (t+1)/w, from_zero t/w (transformers, Megatron), "
           "between (t+1)/(w+1) (NeMo)",
           {"to_peak", "from_zero", "between"});
  s.integer("schedule.constant_steps", &schedule.constant_steps, "last steps, all at min_lr", {.min = 0});
  s.integer("schedule.decay_steps", &schedule.decay_steps,
            "step where min_lr is reached; 0: train.steps - constant_steps", {.min = 0});
  s.number("schedule.min_lr", &schedule.min_lr, "learning rate at the end of the decay", kNotNegative);
}

std::int64_t decay_end(const ScheduleKeys& schedule, std::int64_t train_steps) {
  return schedule.decay_steps > 0 ? schedule.decay_steps : train_steps - schedule.constant_steps;
}

void validate_optimizer(const OptimizerKeys& optimizer) {
  TS_CHECK(optimizer.name == OptimizerName::adamw || optimizer.form == AdamWFormName::torch,
           "optimizer.form = transformers is of optimizer.name = adamw alone");
  TS_CHECK(
      optimizer.name != OptimizerName::lamb || optimizer.gradient_dtype == PrecisionName::fp32,
      "optimizer.gradient_dtype = bf16 does not go with optimizer.name = lamb, which keeps its direction "
      "in the gradient's place");
  TS_CHECK(optimizer.name == OptimizerName::adamw || optimizer.state_dtype == PrecisionName::fp32,
           "optimizer.state_dtype = bf16 is of optimizer.name = adamw alone, which rounds stochastically: "
           "others would lose every update that is smaller than half of a weight's last place");
}

void validate_schedule(const ScheduleKeys& schedule, const OptimizerKeys& optimizer,
                       std::int64_t train_steps) {
  if (schedule.decay == DecayName::constant) {
    TS_CHECK(schedule.min_lr == 0, "schedule.min_lr = {} has no effect with schedule.decay = constant",
             schedule.min_lr);
    TS_CHECK(schedule.constant_steps == 0,
             "schedule.constant_steps = {} has no effect with schedule.decay = constant",
             schedule.constant_steps);
    TS_CHECK(schedule.decay_steps == 0,
             "schedule.decay_steps = {} has no effect with schedule.decay = constant", schedule.decay_steps);
    return;
  }
  const bool own_end = schedule.decay_steps > 0;
  TS_CHECK(!own_end || schedule.constant_steps == 0,
           "schedule.decay_steps and schedule.constant_steps are both given: expected one of them");
  TS_CHECK(schedule.constant_steps <= train_steps, "schedule.constant_steps = {} is beyond train.steps = {}",
           schedule.constant_steps, train_steps);
  const std::int64_t end = decay_end(schedule, train_steps);
  TS_CHECK(schedule.warmup_steps <= end, "schedule.warmup_steps = {} is beyond {} = {}",
           schedule.warmup_steps,
           own_end                       ? "schedule.decay_steps"
           : schedule.constant_steps > 0 ? "train.steps - schedule.constant_steps"
                                         : "train.steps",
           end);
  TS_CHECK(schedule.min_lr <= optimizer.lr, "schedule.min_lr = {} is above optimizer.lr = {}",
           schedule.min_lr, optimizer.lr);
}

}  // namespace tessera
