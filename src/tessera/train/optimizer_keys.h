// OptimizerKeys and ScheduleKeys: the keys optimizer.* and schedule.* of a run's config: the update rule,
// what decays, and the learning rate of every step.
//
// Part of RunConfig; turned into OptimizerOptions and a LearningRateSchedule by from_config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

class ConfigSchema;

enum class OptimizerName { adamw, lamb, sgd };
enum class AdamWFormName { torch, transformers };
enum class DecayName { constant, linear, cosine };
enum class WarmupName { to_peak, from_zero, between };
enum class PrecisionName { fp32, bf16 };

struct OptimizerKeys {
  OptimizerName name = OptimizerName::adamw;
  AdamWFormName form = AdamWFormName::torch;  // of adamw
  double lr = 3e-4;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;             // 0: off
  bool decay_1d = false;              // whether norms' weights and biases decay too
  std::vector<std::string> no_decay;  // parameters with one of these in their name do not
  double momentum = 0.9;              // of sgd
  bool trust_clip = true;             // of lamb
  PrecisionName state_dtype = PrecisionName::fp32;
  PrecisionName gradient_dtype = PrecisionName::fp32;
  bool operator==(const OptimizerKeys&) const = default;
};

struct ScheduleKeys {
  DecayName decay = DecayName::cosine;
  WarmupName warmup = WarmupName::to_peak;
  std::int64_t warmup_steps = 0;
  std::int64_t constant_steps = 0;  // the last ones, at min_lr
  std::int64_t decay_steps = 0;     // 0: train.steps - constant_steps
  double min_lr = 0.0;
  bool operator==(const ScheduleKeys&) const = default;
};

std::string optimizer_text(OptimizerName name);
void declare_optimizer(ConfigSchema& schema, OptimizerKeys& optimizer);
void declare_schedule(ConfigSchema& schema, ScheduleKeys& schedule);

// The step at which min_lr is reached, warm-up included.
std::int64_t decay_end(const ScheduleKeys& schedule, std::int64_t train_steps);

// Refuses keys that contradict each other, naming both.
void validate_optimizer(const OptimizerKeys& optimizer);
void validate_schedule(const ScheduleKeys& schedule, const OptimizerKeys& optimizer,
                       std::int64_t train_steps);

}  // namespace tessera
