#include "tessera/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/runtime/make_executor.h"
#include "tessera/train/on_all_ranks.h"
#include "tessera/train/random_batch.h"

namespace tessera {

double EvaluatedLoss::loss() const {
  return std::accumulate(predictions.begin(), predictions.end(), 0.0,
                         [](double sum, const PredictionLoss& p) { return sum + p.mean(); });
}

double EvaluatedLoss::perplexity() const {
  return std::exp(predictions.at(0).mean());
}

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     const Executor& weights_of)
    : shape_(shape) {
  BuiltGraph built = build_loss_graph(model, shape, dtype);
  expect(expected_inputs(built));
  executor_ = make_executor(device, std::move(built.graph), {.weights_of = &weights_of});
  runner_ = std::make_unique<StageRunner>(*executor_, std::vector<StageMessages>(1),
                                          make_schedule(ScheduleKind::gpipe, 1, 1, 1), nullptr);
}

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device,
                     TrainingStep& training)
    : shape_(shape), ranks_(training.ranks()) {
  const Layout& layout = training.layout();
  const BuiltGraph whole = build_loss_graph(model, {shape.batch * layout.mesh.dp, shape.seq_len}, dtype);
  expect(expected_inputs(whole));
  RankStages mine =
      rank_stages(partition_layout(whole.graph, layout, training.stage_of_layer(), &training.state()), layout,
                  training.stage_of_layer(), ranks_ ? ranks_->at().pp : 0);
  executor_ = make_executor(device, std::move(mine.graph),
                            {.num_slots = std::vector<int>(static_cast<std::size_t>(layout.chunks), 1),
                             .weights_of = &training.executor(),
                             .scratch_of = &training.executor(),
                             .ranks = ranks_});
  runner_ =
      std::make_unique<StageRunner>(*executor_, std::move(mine.messages),
                                    make_schedule(layout.schedule, layout.mesh.pp, layout.chunks, 1), ranks_);
}

void Evaluator::expect(std::vector<ExpectedInput> inputs) {
  inputs_ = std::move(inputs);
  for (const ExpectedInput& input : inputs_) {
    if (input.scored) targets_.push_back(input.name);
  }
}

void Evaluator::add(std::span<const BatchInput> inputs, EvaluatedLoss& to) {
  const int dp = ranks_ ? ranks_->mesh().dp : 1;
  check_inputs(inputs_, shape_.batch * dp, inputs);
  write_loss_scales(*executor_, inputs_, inputs);
  const MicroBatch batch{inputs, shape_.batch, dp, ranks_ ? ranks_->at().dp : 0};
  std::vector<double> means(targets_.size(), 0.0);
  runner_->run_forward(
      [&](const Instruction& i) { write_micro_batch(*executor_, batch, i); },
      [&](const Instruction&) {
        for (std::size_t p = 0; p < means.size(); ++p) {
          means[p] = static_cast<double>(executor_->read_scalar(name_for_targets(kLossOutput, targets_[p])));
        }
      });
  to.predictions.resize(targets_.size());
  for (std::size_t p = 0; p < means.size(); ++p) {
    PredictionLoss& prediction = to.predictions[p];
    prediction.targets = targets_[p];
    const std::int64_t scored = count_scored(inputs, targets_[p]);
    prediction.sum += sum_of_losses(means[p], ranks_) * static_cast<double>(scored);
    prediction.scored += scored;
  }
}

void Evaluator::warm_up(const Model& model) {
  const RandomBatch batch(model, inputs_, shape_.batch * (ranks_ ? ranks_->mesh().dp : 1), shape_.seq_len);
  EvaluatedLoss unread;
  add(batch.inputs(), unread);
}

EvaluatedLoss Evaluator::evaluate(const Samples& samples, std::int64_t num_samples,
                                  const Progress& progress) {
  Batch batch = samples.make_batch(shape_.batch * (ranks_ ? ranks_->mesh().dp : 1), shape_.seq_len);
  EvaluatedLoss result;
  for (std::int64_t done = 0; done < num_samples; done += batch.batch_size) {
    const std::int64_t rows = std::min(batch.batch_size, num_samples - done);
    on_all_ranks(ranks_ ? &ranks_->world() : nullptr, [&] {
      samples.fill(done, batch);
      std::fill(batch.targets.begin() + rows * batch.seq_len, batch.targets.end(), kNotScored);
      if (samples.pairs) std::fill(batch.next_sentence.begin() + rows, batch.next_sentence.end(), kNotScored);
      check_inputs(inputs_, batch.batch_size, batch_inputs(batch));
    });
    add(batch_inputs(batch), result);
    if (!progress(done + rows, result)) break;
  }
  return result;
}

}  // namespace tessera
