#include "tessera/train/micro_batch.h"

#include <algorithm>

#include "tessera/models/bert.h"
#include "tessera/nn/model_builder.h"
#include "tessera/partition/stages.h"

namespace tessera {
namespace {

const BatchInput* find(std::span<const BatchInput> inputs, std::string_view name) {
  const auto it = std::ranges::find(inputs, name, &BatchInput::name);
  return it == inputs.end() ? nullptr : &*it;
}

}  // namespace

std::vector<BatchInput> batch_inputs(const Batch& batch) {
  std::vector<BatchInput> inputs{{kIdsInput, batch.inputs}, {kTargetsInput, batch.targets}};
  if (batch.next_sentence.empty()) return inputs;
  inputs.push_back({kTokenTypesInput, batch.token_types});
  inputs.push_back({kKeyCountsInput, batch.key_counts});
  inputs.push_back({kNextSentenceInput, batch.next_sentence});
  return inputs;
}

void write_micro_batch(Executor& executor, const MicroBatch& batch, const Instruction& instruction) {
  const Graph& graph = executor.graph();
  const std::int64_t part = instruction.micro_batch * batch.dp + batch.dp_rank;
  for (const BatchInput& input : batch.inputs) {
    const ValueId to = graph.find_input(chunk_input_name(input.name, instruction.chunk));
    if (to == kNoValue) continue;
    const auto count = static_cast<std::size_t>(graph.type(to).shape.num_elems());
    executor.write(to, input.values.subspan(static_cast<std::size_t>(part) * count, count), instruction.slot);
  }
  const ValueId key = graph.find_input(chunk_input_name(kDropoutKeyInput, instruction.chunk));
  if (key == kNoValue) return;
  const std::int32_t counters[4] = {
      static_cast<std::int32_t>(batch.seed), static_cast<std::int32_t>(batch.seed >> 32),
      static_cast<std::int32_t>(batch.step), static_cast<std::int32_t>(part * batch.num_sequences)};
  executor.write<std::int32_t>(key, counters, instruction.slot);
}

std::vector<ExpectedInput> expected_inputs(const BuiltGraph& built) {
  std::vector<ExpectedInput> expected;
  for (const Value& value : built.graph.values()) {
    if (value.role != Role::batch || value.name == kDropoutKeyInput) continue;
    const Shape& shape = value.type.shape;
    expected.push_back({value.name, shape.num_elems() / shape[0],
                        std::ranges::find(built.targets, value.name) != built.targets.end()});
  }
  return expected;
}

void check_inputs(std::span<const ExpectedInput> expected, std::int64_t num_sequences,
                  std::span<const BatchInput> inputs) {
  for (const ExpectedInput& wanted : expected) {
    const BatchInput* const input = find(inputs, wanted.name);
    TS_CHECK(input != nullptr, "the model reads '{}' of every batch, which this data does not have",
             wanted.name);
    TS_ASSERT(std::ssize(input->values) == num_sequences * wanted.values_per_sequence);
    TS_CHECK(!wanted.scored || count_scored(inputs, wanted.name) > 0,
             "the batch has no scored token: all of '{}' are negative", wanted.name);
  }
}

std::int64_t count_scored(std::span<const BatchInput> inputs, std::string_view targets) {
  return std::ranges::count_if(find(inputs, targets)->values, [](std::int32_t t) { return t >= 0; });
}

void write_loss_scales(Executor& executor, std::span<const ExpectedInput> expected,
                       std::span<const BatchInput> inputs) {
  for (const ExpectedInput& targets : expected) {
    if (!targets.scored) continue;
    const float scale = 1.0f / static_cast<float>(count_scored(inputs, targets.name));
    const ValueId to = executor.graph().find_input(name_for_targets(kLossScaleInput, targets.name));
    if (to != kNoValue) executor.write<float>(to, {&scale, 1});
  }
}

}  // namespace tessera
