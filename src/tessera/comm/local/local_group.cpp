#include "tessera/comm/local/local_group.h"

#include <utility>

namespace tessera::local {

LocalGroup::LocalGroup(std::shared_ptr<LocalFailure> failure, int size)
    : failure_(std::move(failure)),
      ranks_(size),
      published_(2 * static_cast<std::size_t>(size)),
      mailboxes_(static_cast<std::size_t>(size)),
      counts_(static_cast<std::size_t>(size)) {}

std::shared_ptr<LocalGroup> LocalGroup::make(std::shared_ptr<LocalFailure> failure, int size) {
  const std::shared_ptr<LocalGroup> group(new LocalGroup(std::move(failure), size));
  group->failure_->watch(group);
  return group;
}

void LocalGroup::fail() {
  ranks_.fail();
  for (Mailbox& mailbox : mailboxes_) mailbox.fail();
}

}  // namespace tessera::local
