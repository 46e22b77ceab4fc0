// Several nodes of one op in few launches: the update program has one for each of a model's many parameters,
// most of which are far too small for a launch of their own. Nodes that run together are independent of each
// other, as all adamw nodes of a program are, and all of its sum_squares. The bits are those of the nodes one
// by one. Run by the device where a plan has such nodes side by side.
#pragma once

#include <span>

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

void adamw_of_many(std::span<const KernelCall> calls, Context& context);

// Takes the largest workspace of a call for all of them, unless the result of another lies in it.
void sum_squares_of_many(std::span<const KernelCall> calls, Context& context);

}  // namespace tessera::cuda
