// PrefetchLoader: one background thread that fills batches ahead of their use.
//
// Made and used by the training loop, over Samples. Its position, a global sample number, is the whole state:
// a resumed run makes one that starts at another. All batches are allocated by the constructor, which
// throws Error where the machine has not the memory for them. next() belongs to one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/base/memory_claim.h"
#include "tessera/data/samples.h"

namespace tessera {

struct PrefetchOptions {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t first_sample = 0;
  int num_batches = 4;  // in the ring: one in use, the rest ahead
  bool pairs = false;   // batches with the fields of sentence pairs
};

class PrefetchLoader {
 public:
  // `fill` is called from the background thread only.
  PrefetchLoader(FillFunction fill, const PrefetchOptions& options);
  ~PrefetchLoader();  // waits for at most the one fill that is running
  PrefetchLoader(const PrefetchLoader&) = delete;
  PrefetchLoader& operator=(const PrefetchLoader&) = delete;

  // The batch that follows, valid until the next call. An exception of the fill function is thrown here, at
  // the batch it belongs to, and by every call after it.
  const Batch& next();

 private:
  void work();

  const FillFunction fill_;
  const std::int64_t batch_size_;

  std::mutex mutex_;  // guards everything below but the contents of the batches
  std::condition_variable batch_ready_;
  std::condition_variable work_ready_;  // a slot came free, or the end
  std::optional<MemoryClaim> ring_memory_;
  std::vector<Batch> ring_;
  std::int64_t num_filled_ = 0;    // batches ever filled; number i lies in slot i % ring size
  std::int64_t num_released_ = 0;  // batches ever given back, so their slots may be overwritten
  bool holding_ = false;           // the user reads batch num_released_
  std::int64_t next_to_fill_;      // global sample number
  std::exception_ptr error_;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace tessera
