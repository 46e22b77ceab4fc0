#include "tessera/comm/local/local_failure.h"

#include "tessera/comm/failure_message.h"
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

std::string LocalFailure::message() const {
  std::lock_guard lock(mutex_);
  return cause_ ? failure_message(rank_, cause_) : "";
}

}  // namespace tessera::local
