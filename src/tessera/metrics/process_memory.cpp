#include "tessera/metrics/process_memory.h"

#include <fstream>
#include <string>

#include "tessera/base/error.h"

namespace tessera {

ProcessMemory process_memory() {
  // A file of a few lines "VmRSS:     1234 kB", written by the kernel when it is read.
  std::ifstream status("/proc/self/status");
  TS_CHECK(status.good(), "cannot read /proc/self/status, which holds the process's memory use");
  ProcessMemory memory;
  std::string name;
  while (status >> name) {
    std::int64_t kib = 0;
    if (name == "VmRSS:" && status >> kib) memory.resident_bytes = kib * 1024;
    if (name == "VmHWM:" && status >> kib) memory.peak_resident_bytes = kib * 1024;
    status.ignore(4096, '\n');
  }
  return memory;
}

}  // namespace tessera
