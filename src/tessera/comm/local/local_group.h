// LocalGroup: what the ranks of one local communicator share. Made by run_local_ranks for the world and by
// split for its parts; used by LocalCommunicator, one per rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/local/local_failure.h"
#include "tessera/comm/local/mailbox.h"
#include "tessera/comm/local/rank_barrier.h"

namespace tessera::local {

enum class CallKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, barrier, split };

// What a rank called. All ranks of a group must call the same; LocalCommunicator compares them.
struct Call {
  CallKind kind = CallKind::barrier;
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
  int root = 0;
  Strips strips;

  bool operator==(const Call&) const = default;
};

class LocalGroup;

// What one rank shows the others during one call. Two per rank, used in turn: a rank that has left a call may
// publish its next one while a slower rank still reads this one.
struct alignas(64) Published {
  // A message that is no longer than this travels inside, and the call is over after one meeting of the ranks
  // instead of two. A page: at more the copies outweigh the second meeting.
  static constexpr std::int64_t kInlineBytes = 4096;

  Call call;
  const void* source = nullptr;  // the rank's own buffer, or `inlined`
  void* target = nullptr;
  int color = 0, key = 0;               // of split
  std::shared_ptr<LocalGroup> offered;  // by the first member of a new group to the others, during split
  alignas(64) std::byte inlined[kInlineBytes];
};

class LocalGroup {
 public:
  static std::shared_ptr<LocalGroup> make(std::shared_ptr<LocalFailure> failure, int size);

  int size() const { return static_cast<int>(mailboxes_.size()); }
  Published& published(int rank, unsigned turn) {
    return published_[2 * static_cast<std::size_t>(rank) + turn % 2];
  }
  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<std::size_t>(rank)]; }
  RankBarrier& ranks() { return ranks_; }
  const std::shared_ptr<LocalFailure>& failure() const { return failure_; }

  // The blocks of the current call go to whichever rank is free: [0, num_blocks), then -1. One rank starts
  // them again before it meets the others for a call: all have then left the call before.
  std::int64_t take_block(std::int64_t num_blocks) {
    const std::int64_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
    return block < num_blocks ? block : -1;
  }
  void start_blocks() { next_block_.store(0, std::memory_order_relaxed); }

  void fail();

 private:
  LocalGroup(std::shared_ptr<LocalFailure> failure, int size);

  std::shared_ptr<LocalFailure> failure_;
  RankBarrier ranks_;
  std::vector<Published> published_;
  std::vector<Mailbox> mailboxes_;
  alignas(64) std::atomic<std::int64_t> next_block_{0};
};

}  // namespace tessera::local
