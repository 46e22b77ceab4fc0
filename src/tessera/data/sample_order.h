// The data order as a pure function of (seed, global sample number).
//
// Used by whoever cuts tokens into samples (TokenBatches, blocks of text). The cursor of a run is one number,
// so a resume needs no saved generator and any rank can compute any sample on its own. Every epoch is its own
// permutation of all samples. Shuffling an index array, as Megatron does, would cost 8 bytes a sample and a
// pass over all of them at start-up.
#pragma once

#include <cstdint>

namespace tessera {

// Where element `index` of [0, size) goes under the permutation named by `key`. Constant memory, under
// a microsecond.
std::int64_t permute_index(std::uint64_t key, std::int64_t size, std::int64_t index);

// The sample of [0, samples_per_epoch) that is read as number `global_sample` of a run.
std::int64_t sample_at(std::uint64_t seed, std::int64_t samples_per_epoch, std::int64_t global_sample);

}  // namespace tessera
