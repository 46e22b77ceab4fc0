#include "tessera/comm/local/rank_barrier.h"

#include "tessera/base/usable_cores.h"
#include "tessera/comm/communicator.h"

namespace tessera::local {
namespace {

// Ranks of one step arrive within microseconds of each other, so a waiting rank spins before it sleeps; but
// not where there are fewer cores than ranks, as the rank it waits for may need its core.
constexpr int kSpins = 200;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

RankBarrier::RankBarrier(int size) : size_(size), spins_(size <= num_usable_cores() ? kSpins : 0) {}

bool RankBarrier::arrive() {
  if (arrived_.fetch_add(1) + 1 < size_) return false;
  arrived_.store(0);  // nobody arrives again before the round ends
  return true;
}

std::uint32_t RankBarrier::wait_for_round(std::uint32_t before, bool until_failure) const {
  for (int spin = 0;; ++spin) {
    const std::uint32_t now = state_.load();
    if (((now ^ before) & ~kFailed) != 0 || (until_failure && (now & kFailed) != 0)) return now;
    if (spin < spins_) {
      pause_briefly();
    } else {
      state_.wait(now);
    }
  }
}

void RankBarrier::meet() {
  const std::uint32_t before = state_.load();
  bool met = (before & kFailed) == 0;
  if (met && arrive()) {
    std::uint32_t expected = before;
    met = state_.compare_exchange_strong(expected, before + kRound);
    state_.notify_all();
  } else if (met) {
    met = ((wait_for_round(before, true) ^ before) & ~kFailed) != 0;
  }
  if (!met) throw PeerFailed("another rank failed");
}

void RankBarrier::finish() {
  const std::uint32_t before = state_.load();
  if (arrive()) {
    state_.fetch_add(kRound);
    state_.notify_all();
  } else {
    wait_for_round(before, false);
  }
}

void RankBarrier::fail() {
  state_.fetch_or(kFailed);
  state_.notify_all();
}

}  // namespace tessera::local
