#include "tessera/comm/local/local_failure.h"

#include <new>

#include "tessera/comm/local/local_group.h"

namespace tessera::local {

void LocalFailure::watch(const std::shared_ptr<LocalGroup>& group) {
  std::lock_guard lock(mutex_);
  if (cause_) throw PeerFailed("another rank failed");
  std::erase_if(groups_, [](const std::weak_ptr<LocalGroup>& known) { return known.expired(); });
  groups_.push_back(group);
}

void LocalFailure::fail(int rank, const std::exception_ptr& cause) {
  std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_ = cause;
  rank_ = rank;
  for (const std::weak_ptr<LocalGroup>& known : groups_) {
    if (const std::shared_ptr<LocalGroup> group = known.lock()) group->fail();
  }
}

void LocalFailure::rethrow() const {
  std::lock_guard lock(mutex_);
  if (!cause_) return;
  try {
    std::rethrow_exception(cause_);
  } catch (const std::bad_alloc&) {
    tessera::fail("rank {}: not enough memory", rank_);
  } catch (const std::exception& e) {
    tessera::fail("rank {}: {}", rank_, e.what());
  }
}

}  // namespace tessera::local
