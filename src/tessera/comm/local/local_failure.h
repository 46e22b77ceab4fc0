// LocalFailure: what all groups of one world of local ranks share: the first failure, and whom to wake when
// it happens. Made by run_local_ranks.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::local {

class LocalGroup;

class LocalFailure {
 public:
  // From now on fail() wakes that group. Throws PeerFailed if the world has already failed.
  void watch(const std::shared_ptr<LocalGroup>& group);

  // The first call counts. Wakes every rank that waits in a group of this world.
  void fail(int rank, const std::exception_ptr& cause);

  // "rank N: ..." of the first failure; empty if there was none.
  std::string message() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<LocalGroup>> groups_;
  std::exception_ptr cause_;
  int rank_ = -1;
};

}  // namespace tessera::local
