// MemoryClaim: so many bytes of the machine's memory, counted for all of this process. Held by what takes
// much at once: the CPU device's arenas and the batches that are read ahead.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

class MemoryClaim {
 public:
  // Throws Error when all claims together are beyond the machine's memory: the kernel would give the pages,
  // and end the process when it has no more of them. `purpose` (" for ...") is said there.
  explicit MemoryClaim(std::int64_t num_bytes, std::string_view purpose = {});
  ~MemoryClaim();
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

 private:
  std::int64_t num_bytes_;
};

}  // namespace tessera
