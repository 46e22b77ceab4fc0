// Whether a resumed run sees the samples that the interrupted one would have seen. Used by the training loop.
#pragma once

#include <string>

#include "tessera/train/run_config.h"

namespace tessera {

// The samples that data.kind = megatron lays out and shuffles; the order depends on their number.
std::int64_t samples_of_order(const RunConfig& config);

// Throws Error naming the key that has changed, if it decides which samples a run sees. Paths may change, for
// files move.
void check_same_samples(const RunConfig& before, const RunConfig& now, const std::string& checkpoint);

}  // namespace tessera
