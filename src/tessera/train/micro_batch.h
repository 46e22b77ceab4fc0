// How a global batch reaches the graphs: as named inputs, of which each rank writes its own sequences
// micro-batch by micro-batch. Used by training, evaluation and golden_check.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/pipeline/schedule.h"
#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"

namespace tessera {

// An input of the model for a global batch: ids, targets, or what the model has added. Every sequence has the
// same number of values.
struct BatchInput {
  std::string_view name;
  std::span<const std::int32_t> values;
};

// All that the batch has.
std::vector<BatchInput> batch_inputs(const Batch& batch);

struct MicroBatch {
  std::span<const BatchInput> inputs;  // of the global batch
  std::int64_t num_sequences = 0;      // of one rank's micro-batch
  int dp = 1, dp_rank = 0;
  std::uint64_t seed = 0;  // of dropout, with the step
  std::int64_t step = 0;
};

// Writes one dp rank's rows of micro-batch `instruction.micro_batch` where the chunk's programs read them;
// chunks that do not read an input do not have it.
void write_micro_batch(Executor& executor, const MicroBatch& batch, const Instruction& instruction);

// What a model reads of every batch.
struct ExpectedInput {
  std::string name;
  std::int64_t values_per_sequence = 0;
  bool scored = false;  // targets of a prediction
};
std::vector<ExpectedInput> expected_inputs(const BuiltGraph& built);

// Names what a batch lacks, if only targets that are scored.
void check_inputs(std::span<const ExpectedInput> expected, std::int64_t num_sequences,
                  std::span<const BatchInput> inputs);
// How many targets of a prediction are scored: those that are not negative.
std::int64_t count_scored(std::span<const BatchInput> inputs, std::string_view targets);
// Of every prediction one over the number of its scored targets in the global batch, which check_inputs has
// passed.
void write_loss_scales(Executor& executor, std::span<const ExpectedInput> expected,
                       std::span<const BatchInput> inputs);

}  // namespace tessera
