#include "tessera/train/training_step.h"

#include <algorithm>
#include <numeric>

#include "tessera/pipeline/schedule_check.h"
#include "tessera/runtime/make_executor.h"

namespace tessera {

TrainingStep::TrainingStep(const Model& model, const TrainingGraphOptions& options, const Layout& layout,
                           std::uint64_t seed, Device& device, Communicator* world)
    : shape_(options.shape), seed_(seed) {
  // The single-device graph has the sequences of all dp ranks.
  TrainingGraphOptions whole = options;
  whole.shape.batch *= layout.mesh.dp;
  BuiltGraph built = build_training_graph(model, whole);
  parameters_ = std::move(built.parameters);
  layout_ = resolved(layout, built.graph.num_layers());
  stage_of_layer_ = stages_of_layers(built.graph, layout_);
  const int pp_rank = world ? coordinates_of(layout_.mesh, world->rank()).pp : 0;
  Partitioned partitioned = partition_layout(built.graph, layout_, stage_of_layer_);
  state_ = std::move(partitioned.state);
  if (world) ranks_ = std::make_unique<RankGroups>(*world, layout_.mesh, partitioned.head_copies);
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

void write_micro_batch(Executor& executor, const MicroBatch& batch, const Instruction& instruction) {
  const std::int64_t first_row = (instruction.micro_batch * batch.dp + batch.dp_rank) * batch.shape.batch;
  const auto rows = [&](std::span<const std::int32_t> values) {
    return values.subspan(static_cast<std::size_t>(first_row * batch.shape.seq_len),
                          static_cast<std::size_t>(batch.shape.batch * batch.shape.seq_len));
  };
  const auto write = [&](std::string_view name, std::span<const std::int32_t> values) {
    const ValueId input = executor.graph().find_input(chunk_input_name(name, instruction.chunk));
    if (input != kNoValue) executor.write(input, values, instruction.slot);
  };
  write(kIdsInput, rows(batch.ids));
  write(kTargetsInput, rows(batch.targets));
  const std::int32_t key[4] = {static_cast<std::int32_t>(batch.seed),
                               static_cast<std::int32_t>(batch.seed >> 32),
                               static_cast<std::int32_t>(batch.step), static_cast<std::int32_t>(first_row)};
  write(kDropoutKeyInput, key);
}

double sum_of_losses(double loss, const RankGroups* ranks) {
  if (ranks == nullptr) return loss;
  const bool counts = ranks->at().tp == 0 && ranks->at().pp == ranks->mesh().pp - 1;
  double sum = counts ? loss : 0.0;
  ranks->world().all_reduce(&sum, 1, DType::f64, Reduction::sum);
  return sum;
}

void TrainingStep::start_micro_batches(std::span<const std::int32_t> ids,
                                       std::span<const std::int32_t> targets, std::int64_t step,
                                       OpTimes* times) {
  const auto expected =
      static_cast<std::size_t>(layout_.num_micro_batches * layout_.mesh.dp * shape_.batch * shape_.seq_len);
  TS_ASSERT(ids.size() == expected && targets.size() == expected);
  const auto scored = std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  TS_CHECK(scored > 0, "step {}: the batch has no scored token", step);
  const float loss_scale = 1.0f / static_cast<float>(scored);
  if (const ValueId input = executor_->graph().find_input(kLossScaleInput); input != kNoValue) {
    executor_->write<float>(input, {&loss_scale, 1});
  }
  const MicroBatch batch{ids, targets, shape_, layout_.mesh.dp, ranks_ ? ranks_->at().dp : 0, seed_, step};
  std::fill(losses_.begin(), losses_.end(), 0.0f);
  runner_->run([&](const Instruction& i) { write_micro_batch(*executor_, batch, i); },
               [&](const Instruction& i) {
                 executor_->read_scalar_later(kLossOutput, i.slot,
                                              losses_[static_cast<std::size_t>(i.micro_batch)]);
               },
               times);
}

void TrainingStep::start_update(std::int64_t step, double learning_rate, OpTimes* times) {
  const auto rate = static_cast<float>(learning_rate);
  const auto number = static_cast<std::int32_t>(step + 1);  // bias correction counts from 1
  executor_->write<float>(kLearningRateInput, {&rate, 1});
  if (const ValueId input = executor_->graph().find_input(kStepInput); input != kNoValue)
    executor_->write<std::int32_t>(input, {&number, 1});
  executor_->run(Phase::update, 0, times);
}

double TrainingStep::finished_loss() const {
  executor_->device().synchronize();
  return sum_of_losses(std::accumulate(losses_.begin(), losses_.end(), 0.0), ranks_.get());
}

double TrainingStep::accumulate_gradients(std::span<const std::int32_t> ids,
                                          std::span<const std::int32_t> targets, std::int64_t step,
                                          OpTimes* times) {
  start_micro_batches(ids, targets, step, times);
  return finished_loss();
}

double TrainingStep::update(std::int64_t step, double learning_rate, OpTimes* times) {
  start_update(step, learning_rate, times);
  return static_cast<double>(executor_->read_scalar(kGradNormOutput));
}

StepResult TrainingStep::run(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                             std::int64_t step, double learning_rate, OpTimes* times) {
  start_micro_batches(ids, targets, step, times);
  start_update(step, learning_rate, times);
  return {finished_loss(), static_cast<double>(executor_->read_scalar(kGradNormOutput))};
}

}  // namespace tessera
