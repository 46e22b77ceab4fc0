// fill_rows: a batch from a function that gives tokens of samples, each seq_len + 1 long. Used by the
// datasets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tessera/base/error.h"
#include "tessera/data/batch.h"

namespace tessera {

// copy_tokens(number, first, out) copies tokens first, first + 1, ... of sample `number`; row b is sample
// first_sample + b. Does not allocate.
template <class F>
void fill_rows(std::int64_t first_sample, std::int64_t seq_len, Batch& batch, F&& copy_tokens) {
  TS_ASSERT(first_sample >= 0 && batch.seq_len == seq_len);
  batch.first_sample = first_sample;
  for (std::int64_t row = 0; row < batch.batch_size; ++row) {
    const auto offset = static_cast<std::size_t>(row * seq_len), size = static_cast<std::size_t>(seq_len);
    const auto inputs = std::span(batch.inputs).subspan(offset, size);
    const auto targets = std::span(batch.targets).subspan(offset, size);
    copy_tokens(first_sample + row, 0, inputs);
    std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
    copy_tokens(first_sample + row, seq_len, targets.last(1));
  }
}

}  // namespace tessera
