// What a training step refuses to be made of, whoever asks: a program of one's own has no config that is
// checked first.
#include "tessera/train/training_step.h"

#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"
#include "partition/own_model.h"
#include "plan/small_models.h"
#include "tessera/ops/linear.h"

namespace tessera {
namespace {

TEST(TrainingStepRefuses, ParametersThatNothingTrains) {
  for (const bool read : {false, true}) {
    const OwnModel model([&](ModelBuilder& b, ValueId ids) {
      auto [head, x] = embed(b, ids);
      const ValueId idle = square(b, "idle.weight");
      if (read) linear(b.graph(), "unused", x, idle);
      return predict(b, x, head);
    });
    expect_error(
        [&] {
          build_training_graph(model, {.shape = {2, 8}});
        },
        {"parameter idle.weight f32[24,24]", "no prediction depends on it"});
    build_loss_graph(model, {2, 8}, DType::f32);
  }
}

TEST(TrainingStepRefuses, RoundedGradientsOfSeveralMicroBatches) {
  const auto llama = small_llama();
  const auto device = make_cpu_device(1);
  TrainingGraphOptions options{.shape = {1, 8}, .dtype = DType::bf16};
  options.gradients = GradientStorage::rounded_products;
  Layout layout;
  const TrainingStep one(*llama, options, layout, 1, *device);
  layout.num_micro_batches = 2;
  expect_error([&] { TrainingStep(*llama, options, layout, 1, *device); }, {"one micro-batch, found 2"});
  options.gradients = GradientStorage::wide;
  const TrainingStep wide(*llama, options, layout, 1, *device);
}

}  // namespace
}  // namespace tessera
