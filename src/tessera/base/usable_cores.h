// The cores that this thread, and those that it starts, may run on: fewer than the machine's where a launcher
// (Slurm, mpiexec, taskset) has bound the process to some. Asked by whoever makes a ThreadPool.
#pragma once

#include <cstdint>

namespace tessera {

int num_usable_cores();               // at least 1
int num_threads(std::int64_t asked);  // as asked for; 0: one for each of them
std::uint64_t usable_cores_hash();    // which ones

}  // namespace tessera
