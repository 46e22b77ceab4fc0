// The start banner: what a run is about to do, in six numbers and their product, before the first step.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct RunSize {
  std::int64_t examples = 0;          // sequences in the training data
  std::int64_t batch_per_device = 1;  // sequences of a micro-batch
  std::int64_t data_parallel = 1;     // copies of the model
  std::int64_t accumulation = 1;      // micro-batches per step
  std::int64_t steps = 0;
  std::int64_t seq_len = 0;

  std::int64_t total_batch() const { return batch_per_device * data_parallel * accumulation; }
  std::int64_t steps_per_epoch() const;  // the last may take examples of the next epoch; 0: not known
  std::int64_t epochs() const;           // begun, counting the last
};

std::string start_banner(const RunSize& size);  // several lines, without the last newline

}  // namespace tessera
