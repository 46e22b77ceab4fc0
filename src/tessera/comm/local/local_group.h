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

  // The work of a call is cut into blocks of each rank's share. A rank takes its own first, then those of
  // ranks that are behind, as a rank without a core is: take_block(r) gives 0, 1, ... over all callers
  // together. Each rank starts its own count before it meets the others for a call, when all have left the
  // call before.
  std::int64_t take_block(int share) {
    return counts_[static_cast<std::size_t>(share)].next.fetch_add(1, std::memory_order_relaxed);
  }
  void start_blocks(int share) {
    counts_[static_cast<std::size_t>(share)].next.store(0, std::memory_order_relaxed);
  }

  void fail();

 private:
  struct alignas(64) BlockCount {
    std::atomic<std::int64_t> next{0};
  };

  LocalGroup(std::shared_ptr<LocalFailure> failure, int size);

  std::shared_ptr<LocalFailure> failure_;
  RankBarrier ranks_;
  std::vector<Published> published_;
  std::vector<Mailbox> mailboxes_;
  std::vector<BlockCount> counts_;
};

}  // namespace tessera::local
