#include "tessera/base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tessera {

std::int64_t machine_memory_bytes() {
  std::int64_t bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  // Of the group that this process sees as the root. A file that is not there, or says "max", limits nothing.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace tessera
