// The random operands of a case: a function of (seed, stream, element), the same on every machine and with
// any number of threads.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/selftest/op_case.h"

namespace tessera {

std::vector<std::byte> random_operand(const CaseInput& input, std::uint64_t seed, std::uint64_t stream,
                                      ThreadPool& pool);

}  // namespace tessera
