#include "tessera/base/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace tessera {

std::int64_t machine_memory_bytes() {
  struct sysinfo machine = {};
  if (::sysinfo(&machine) != 0) return std::numeric_limits<std::int64_t>::max();
  auto bytes = static_cast<std::int64_t>((machine.totalram + machine.totalswap) * machine.mem_unit);
  // Of the group that this process sees as the root. A file that is not there, or says "max", limits nothing.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace tessera
