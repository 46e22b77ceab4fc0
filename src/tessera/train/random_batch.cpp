#include "tessera/train/random_batch.h"

#include "tessera/base/philox.h"
#include "tessera/models/bert.h"

namespace tessera {
namespace {

// Of the numbers that an input holds.
std::int64_t range_of(const Model& model, std::string_view input) {
  const bool is_tokens = input == kIdsInput || input == kTargetsInput;
  return is_tokens ? model.vocab_size() : 2;  // else sentence A or B, next or not
}

}  // namespace

RandomBatch::RandomBatch(const Model& model, std::span<const ExpectedInput> expected,
                         std::int64_t num_sequences, std::int64_t seq_len) {
  values_.reserve(expected.size());
  for (const ExpectedInput& input : expected) {
    auto& values = values_.emplace_back(static_cast<std::size_t>(num_sequences * input.values_per_sequence),
                                        static_cast<std::int32_t>(seq_len));
    inputs_.push_back({input.name, values});
    if (input.name == kKeyCountsInput) continue;
    const auto range = static_cast<std::uint64_t>(range_of(model, input.name));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int32_t>(philox(1, i, name_hash(input.name))[0] % range);
    }
  }
}

}  // namespace tessera
