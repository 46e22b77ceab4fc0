// search_products: the fastest of cuBLASLt's algorithms for every product that has been run, by trying them.
//
// A GPU that multiplies all the time is held at its power limit, where the order of algorithms is another
// than in a short test on a cool card; so each is given a share of a second, and the best few take turns.
// The operands of the last run are used and overwritten. Called by the device for `tessera tune`.
#pragma once

#include <functional>
#include <string>

#include "tessera/backend/cuda/gemm.h"

namespace tessera::cuda {

// Adds those that `choices` does not have. Says one line per product.
void search_products(GemmPlans& plans, cudaStream_t stream, GemmChoices& choices,
                     const std::function<void(const std::string&)>& say);

}  // namespace tessera::cuda
