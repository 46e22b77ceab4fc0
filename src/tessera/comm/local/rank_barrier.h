// RankBarrier: where the ranks of a group meet, and where a failure elsewhere in the world reaches them. One
// per LocalGroup.
//
// A collective that works on its peers' buffers is a meet() and a finish() around the work. meet() ends in
// one of two ways for all ranks alike: everyone came, or the world failed first. After a meet() that
// succeeded every rank works on the others' memory, so finish() waits for them even if the world fails
// meanwhile: a rank that left early would free buffers under its peers' hands.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::local {

class RankBarrier {
 public:
  explicit RankBarrier(int size);

  void meet();    // throws PeerFailed, now and ever after, if fail() came before the last rank
  void finish();  // throws nothing: nothing that can fail may stand between meet() and finish()

  void fail();  // from any thread
  bool failed() const { return (state_.load() & kFailed) != 0; }

 private:
  // Bit 0: failed. The rest counts the rounds and wraps. One word, so that a round ends before or after a
  // failure and never on both sides of it; four bytes, which the kernel can wait on.
  static constexpr std::uint32_t kFailed = 1;
  static constexpr std::uint32_t kRound = 2;

  bool arrive();  // true for the last
  std::uint32_t wait_for_round(std::uint32_t before, bool until_failure) const;

  const int size_;
  const int spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> state_{0};
};

}  // namespace tessera::local
