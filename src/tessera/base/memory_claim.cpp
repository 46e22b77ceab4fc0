#include "tessera/base/memory_claim.h"

#include <atomic>

#include "tessera/base/error.h"
#include "tessera/base/machine_memory.h"

namespace tessera {
namespace {

std::atomic<std::int64_t> g_claimed_bytes{0};  // of all ranks that are threads of this process

}  // namespace

MemoryClaim::MemoryClaim(std::int64_t num_bytes, std::string_view purpose) : num_bytes_(num_bytes) {
  const std::int64_t machine = machine_memory_bytes(), all = g_claimed_bytes += num_bytes;
  if (all <= machine) return;
  g_claimed_bytes -= num_bytes;
  fail("cannot allocate {:.1f} GB{}, {:.1f} in all: this machine has {:.1f} GB of memory",
       static_cast<double>(num_bytes) / 1e9, purpose, static_cast<double>(all) / 1e9,
       static_cast<double>(machine) / 1e9);
}

MemoryClaim::~MemoryClaim() {
  g_claimed_bytes -= num_bytes_;
}

}  // namespace tessera
