// SampleRange: consecutive samples of a dataset, and the cut of all of them into those to train on and those
// held out. Used by the datasets that have no other split: TokenBatches and TextBlocks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

struct SampleSplit {
  SampleRange train;
  SampleRange valid;  // the last samples; empty when nothing is held out
};

// Any fraction above 0 holds out at least one sample.
inline SampleSplit hold_out(std::int64_t num_samples, double fraction) {
  std::int64_t num_valid = static_cast<std::int64_t>(fraction * static_cast<double>(num_samples));
  if (fraction > 0) num_valid = std::max<std::int64_t>(1, num_valid);
  return {.train = {0, num_samples - num_valid}, .valid = {num_samples - num_valid, num_samples}};
}

}  // namespace tessera
