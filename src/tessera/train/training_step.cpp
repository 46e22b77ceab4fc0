#include "tessera/train/training_step.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tessera/pipeline/schedule_check.h"
#include "tessera/runtime/make_executor.h"

namespace tessera {

TrainingStep::TrainingStep(const Model& model, const TrainingGraphOptions& options, const Layout& layout,
                           std::uint64_t seed, Device& device, Communicator* world)
    : shape_(options.shape), seed_(seed) {
  TS_CHECK(options.gradients == GradientStorage::wide || layout.num_micro_batches == 1,
           "gradients rounded to bf16 need a step of one micro-batch, found {}: the gradients of several are "
           "added up in fp32",
           layout.num_micro_batches);
  // The single-device graph has the sequences of all dp ranks.
  TrainingGraphOptions whole = options;
  whole.shape.batch *= layout.mesh.dp;
  BuiltGraph built = build_training_graph(model, whole);
  inputs_ = expected_inputs(built);
  parameters_ = std::move(built.parameters);
  layout_ = resolved(layout, built.graph.num_layers());
  stage_of_layer_ = stages_of_layers(built.graph, layout_);
  const int pp_rank = world ? coordinates_of(layout_.mesh, world->rank()).pp : 0;
  Partitioned partitioned = partition_layout(built.graph, layout_, stage_of_layer_);
  state_ = std::move(partitioned.state);
  if (world) {
    ranks_ = std::make_unique<RankGroups>(
        *world, layout_.mesh, RankGroupOptions{.head_copies = partitioned.head_copies, .device = &device});
  }
  RankStages mine = rank_stages(partitioned, layout_, stage_of_layer_, pp_rank);
  Schedule schedule =
      make_schedule(layout_.schedule, layout_.mesh.pp, layout_.chunks, layout_.num_micro_batches);
  check_schedule(schedule);
  losses_.resize(static_cast<std::size_t>(schedule.num_micro_batches));
  executor_ = make_executor(
      device, std::move(mine.graph),
      {.num_slots = schedule.slots_needed[static_cast<std::size_t>(pp_rank)], .ranks = ranks_.get()});
  weights_ = world ? std::make_unique<WeightStore>(*executor_, state_, ranks_.get())
                   : std::make_unique<WeightStore>(*executor_);
  runner_ =
      std::make_unique<StageRunner>(*executor_, std::move(mine.messages), std::move(schedule), ranks_.get());
}

double sum_of_losses(double loss, const RankGroups* ranks) {
  if (ranks == nullptr) return loss;
  const bool counts = ranks->at().tp == 0 && ranks->at().pp == ranks->mesh().pp - 1;
  double sum = counts ? loss : 0.0;
  ranks->world().all_reduce(&sum, 1, DType::f64, Reduction::sum);
  return sum;
}

void TrainingStep::start_micro_batches(std::span<const BatchInput> inputs, std::int64_t step,
                                       bool update_follows, OpTimes* times) {
  check_inputs(inputs_, layout_.num_micro_batches * layout_.mesh.dp * shape_.batch, inputs);
  write_loss_scales(*executor_, inputs_, inputs);
  const MicroBatch batch{inputs, shape_.batch, layout_.mesh.dp, ranks_ ? ranks_->at().dp : 0, seed_, step};
  std::fill(losses_.begin(), losses_.end(), 0.0f);
  runner_->run([&](const Instruction& i) { write_micro_batch(*executor_, batch, i); },
               [&](const Instruction& i) {
                 executor_->read_scalar_later(kLossOutput, i.slot,
                                              losses_[static_cast<std::size_t>(i.micro_batch)]);
               },
               update_follows, times);
}

void TrainingStep::start_update(std::int64_t step, double learning_rate, OpTimes* times) {
  const auto rate = static_cast<float>(learning_rate);
  const auto number = static_cast<std::int32_t>(step + 1);  // bias correction counts from 1
  // A stage without parameters reads neither, SGD no step.
  if (const ValueId input = executor_->graph().find_input(kLearningRateInput); input != kNoValue)
    executor_->write<float>(input, {&rate, 1});
  if (const ValueId input = executor_->graph().find_input(kStepInput); input != kNoValue)
    executor_->write<std::int32_t>(input, {&number, 1});
  executor_->run(Phase::update, {.times = times});
}

double TrainingStep::finished_loss() const {
  executor_->device().synchronize();
  return sum_of_losses(std::accumulate(losses_.begin(), losses_.end(), 0.0), ranks_.get());
}

double TrainingStep::accumulate_gradients(std::span<const BatchInput> inputs, std::int64_t step,
                                          OpTimes* times) {
  start_micro_batches(inputs, step, false, times);
  return finished_loss();
}

double TrainingStep::accumulate_gradients(std::span<const std::int32_t> ids,
                                          std::span<const std::int32_t> targets, std::int64_t step,
                                          OpTimes* times) {
  return accumulate_gradients(std::array{BatchInput{kIdsInput, ids}, BatchInput{kTargetsInput, targets}},
                              step, times);
}

double TrainingStep::update(std::int64_t step, double learning_rate, OpTimes* times) {
  start_update(step, learning_rate, times);
  return static_cast<double>(executor_->read_scalar(kGradNormOutput));
}

StepResult TrainingStep::run(std::span<const BatchInput> inputs, std::int64_t step, double learning_rate,
                             OpTimes* times) {
  start_micro_batches(inputs, step, true, times);
  start_update(step, learning_rate, times);
  const bool measures_parameters = executor_->graph().find_output(kParameterNormOutput) != kNoValue;
  executor_->read_scalar_later(kGradNormOutput, 0, gradient_norm_);
  if (measures_parameters) executor_->read_scalar_later(kParameterNormOutput, 0, parameter_norm_);
  StepResult result{finished_loss(), static_cast<double>(gradient_norm_), {}};
  if (measures_parameters) result.parameter_norm = static_cast<double>(parameter_norm_);
  return result;
}

StepResult TrainingStep::run(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                             std::int64_t step, double learning_rate, OpTimes* times) {
  return run(std::array{BatchInput{kIdsInput, ids}, BatchInput{kTargetsInput, targets}}, step, learning_rate,
             times);
}

}  // namespace tessera
