#include "tessera/train/evaluate.h"

#include <array>

#include "tessera/runtime/make_executor.h"

namespace tessera {

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     const Executor& weights_of)
    : shape_(shape) {
  BuiltGraph built = build_loss_graph(model, shape, dtype);
  inputs_ = expected_inputs(built);
  executor_ = make_executor(device, std::move(built.graph), {.weights_of = &weights_of});
  runner_ = std::make_unique<StageRunner>(*executor_, std::vector<StageMessages>(1),
                                          make_schedule(ScheduleKind::gpipe, 1, 1, 1), nullptr);
}

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     TrainingStep& training)
    : shape_(shape), ranks_(training.ranks()) {
  const Layout& layout = training.layout();
  const BuiltGraph whole = build_loss_graph(model, {shape.batch * layout.mesh.dp, shape.seq_len}, dtype);
  inputs_ = expected_inputs(whole);
  RankStages mine =
      rank_stages(partition_layout(whole.graph, layout, training.stage_of_layer(), &training.state()), layout,
                  training.stage_of_layer(), ranks_ ? ranks_->at().pp : 0);
  executor_ = make_executor(device, std::move(mine.graph),
                            {.num_slots = std::vector<int>(static_cast<std::size_t>(layout.chunks), 1),
                             .weights_of = &training.executor(),
                             .ranks = ranks_});
  runner_ =
      std::make_unique<StageRunner>(*executor_, std::move(mine.messages),
                                    make_schedule(layout.schedule, layout.mesh.pp, layout.chunks, 1), ranks_);
}

double Evaluator::loss(std::span<const BatchInput> inputs) {
  const int dp = ranks_ ? ranks_->mesh().dp : 1;
  check_inputs(inputs_, shape_.batch * dp, inputs);
  write_loss_scales(*executor_, inputs_, inputs);
  const MicroBatch batch{inputs, shape_.batch, dp, ranks_ ? ranks_->at().dp : 0};
  double loss = 0;
  runner_->run_forward(
      [&](const Instruction& i) { write_micro_batch(*executor_, batch, i); },
      [&](const Instruction&) { loss = static_cast<double>(executor_->read_scalar(kLossOutput)); });
  return sum_of_losses(loss, ranks_);
}

double Evaluator::loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) {
  return loss(std::array{BatchInput{kIdsInput, ids}, BatchInput{kTargetsInput, targets}});
}

}  // namespace tessera
