// measure_fma_peak: the floating-point rate this machine reaches now, in flop/s, over all threads of a pool.
//
// Called once at the start of a run; the training log and the benchmarks state their speed as a share of it.
#pragma once

#include "tessera/base/thread_pool.h"

namespace tessera::cpu {

// Runs float multiply-adds in registers on every thread of `pool`: about 20 ms.
double measure_fma_peak(ThreadPool& pool);

}  // namespace tessera::cpu
