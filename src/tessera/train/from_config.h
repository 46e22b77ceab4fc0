// From the names in a RunConfig to the things themselves: the device, the model, the schedule, the layout.
#pragma once

#include <memory>

#include "tessera/models/model.h"
#include "tessera/optim/learning_rate.h"
#include "tessera/runtime/device.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/layout.h"
#include "tessera/train/run_config.h"

namespace tessera {

// On several ranks collective over the world: those of a machine take its GPUs in turn, and share them if
// there are too few.
std::unique_ptr<Device> make_device(const RunConfig& config, Communicator* world = nullptr);
// What a plan is made for without running it: where there is no GPU the null device stands in for it, so that
// a plan for GPUs can be made anywhere, without the scratch of their kernels.
std::unique_ptr<Device> make_planning_device(const RunConfig& config);
// Refuses device = null, which plans a step but has no memory to run it in.
std::unique_ptr<Device> make_computing_device(const RunConfig& config, Communicator* world = nullptr);
// Likewise, of one of a machine's ranks, which meet nobody for it.
std::unique_ptr<Device> make_device_of_rank(const RunConfig& config, int rank_on_host);

// From model.config, or from the inline keys. tokenizer_vocab_size is 0 without a tokenizer.
std::unique_ptr<Model> make_model(const RunConfig& config, std::int64_t tokenizer_vocab_size);

DType weight_dtype(PrecisionName precision);
TrainingGraphOptions training_graph_options(const RunConfig& config);
LearningRateSchedule learning_rate_schedule(const RunConfig& config);
Layout layout_of(const RunConfig& config);

}  // namespace tessera
