// How much memory this process can have at most: the machine's with its swap space, or what a container
// leaves of that. Asked by MemoryClaim and before large maps are made: the kernel would otherwise end a run
// in its middle.
#pragma once

#include <cstdint>

namespace tessera {

std::int64_t machine_memory_bytes();

}  // namespace tessera
