#include "tessera/base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/philox.h"

namespace tessera {
namespace {

// Their numbers, ascending; empty if the kernel does not say.
std::vector<int> usable_cores() {
  constexpr int kMostCores = 1 << 20;
  for (int size = CPU_SETSIZE; size <= kMostCores; size *= 2) {
    std::vector<cpu_set_t> sets(static_cast<std::size_t>(size / CPU_SETSIZE));
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, sets.data()) != 0) {
      if (errno == EINVAL) continue;  // the kernel knows more cores than that
      break;
    }
    std::vector<int> cores;
    for (int core = 0; core < size; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, sets.data())) cores.push_back(core);
    }
    return cores;
  }
  return {};
}

}  // namespace

int num_usable_cores() {
  const auto bound = static_cast<int>(usable_cores().size());
  return bound > 0 ? bound : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int num_threads(std::int64_t asked) {
  return asked > 0 ? static_cast<int>(asked) : num_usable_cores();
}

std::uint64_t usable_cores_hash() {
  std::string numbers;
  for (const int core : usable_cores()) numbers += std::to_string(core) + ' ';
  return name_hash(numbers);
}

}  // namespace tessera
