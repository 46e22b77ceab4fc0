#include "tessera/train/evaluate.h"

#include "tessera/runtime/make_executor.h"

#include <algorithm>

namespace tessera {

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     const Executor& weights_of)
    : shape_(shape),
      executor_(
          make_executor(device, build_loss_graph(model, shape, dtype).graph, {.weights_of = &weights_of})) {
  runner_ = std::make_unique<StageRunner>(*executor_, std::vector<StageMessages>(1),
                                          make_schedule(ScheduleKind::gpipe, 1, 1, 1), nullptr);
}

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     TrainingStep& training)
    : shape_(shape), ranks_(training.ranks()) {
  const Layout& layout = training.layout();
  const Graph whole = build_loss_graph(model, {shape.batch * layout.mesh.dp, shape.seq_len}, dtype).graph;
  RankStages mine =
      rank_stages(partition_layout(whole, layout, training.stage_of_layer(), &training.state()), layout,
                  training.stage_of_layer(), ranks_ ? ranks_->at().pp : 0);
  executor_ = make_executor(device, std::move(mine.graph),
                            {.num_slots = std::vector<int>(static_cast<std::size_t>(layout.chunks), 1),
                             .weights_of = &training.executor(),
                             .ranks = ranks_});
  runner_ =
      std::make_unique<StageRunner>(*executor_, std::move(mine.messages),
                                    make_schedule(layout.schedule, layout.mesh.pp, layout.chunks, 1), ranks_);
}

double Evaluator::loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) {
  const auto scored = std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  TS_CHECK(scored > 0, "evaluation: the batch has no scored token");
  const float loss_scale = 1.0f / static_cast<float>(scored);
  if (const ValueId input = executor_->graph().find_input(kLossScaleInput); input != kNoValue) {
    executor_->write<float>(input, {&loss_scale, 1});
  }
  const MicroBatch batch{ids, targets, shape_, ranks_ ? ranks_->mesh().dp : 1, ranks_ ? ranks_->at().dp : 0};
  double loss = 0;
  runner_->run_forward(
      [&](const Instruction& i) { write_micro_batch(*executor_, batch, i); },
      [&](const Instruction&) { loss = static_cast<double>(executor_->read_scalar(kLossOutput)); });
  return sum_of_losses(loss, ranks_);
}

}  // namespace tessera
