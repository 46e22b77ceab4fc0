// ProcessMemory: what this process holds in memory now and at its most, as the kernel counts it.
// Used by the step line and by the check of a run against its plan.
#pragma once

#include <cstdint>

namespace tessera {

struct ProcessMemory {
  std::int64_t resident_bytes = 0;
  std::int64_t peak_resident_bytes = 0;
};

ProcessMemory process_memory();

}  // namespace tessera
