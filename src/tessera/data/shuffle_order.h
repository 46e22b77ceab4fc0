// The orders that two other programs give to a list, number for number: Python's random.Random(seed).shuffle
// and PyTorch's randperm. BERT's shards are read in the first, the rows of a shard in the second.
//
// Used by BertShards. Both draw from an MT19937, but seed and use it differently from each other and from
// NumPy.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// list(range(size)) after random.Random(seed).shuffle.
std::vector<std::int64_t> python_shuffle(std::uint64_t seed, std::int64_t size);

// torch.randperm(size, generator=torch.Generator().manual_seed(seed)), for sizes below 2^32 / 20.
std::vector<std::int64_t> torch_permutation(std::uint64_t seed, std::int64_t size);

}  // namespace tessera
