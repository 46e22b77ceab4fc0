// How much memory this process can have at most: the machine's with its swap space, or what a container
// leaves of that. Asked by the CPU device, which would otherwise be ended by the kernel in the middle of a
// run.
#pragma once

#include <cstdint>

namespace tessera {

std::int64_t machine_memory_bytes();

}  // namespace tessera
