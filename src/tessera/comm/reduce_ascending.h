// reduce_ascending: the one loop that adds what several ranks hold. comm/local and comm/mpi both call it, so
// that their sums agree to the bit.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/comm/communicator.h"

namespace tessera {

// to[*][i] = ((from[0][i] + from[1][i]) + from[2][i]) + ..., rounded once, for i < count; every `to` gets the
// result. A `to` may be one of the `from`, but they overlap in no other way.
void reduce_ascending(std::span<const void* const> from, std::span<void* const> to, std::int64_t count,
                      DType dtype, Reduction reduction);

}  // namespace tessera
