#include "tessera/comm/local/local_world.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tessera/comm/local/local_communicator.h"

namespace tessera {
namespace {

// How many ranks have ended.
class EndedRanks {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }

  // Until all have; false if one has failed and others are still not back when the patience is over.
  bool wait_for_all(std::size_t num_ranks, const local::LocalFailure& failure,
                    std::chrono::seconds patience) {
    std::unique_lock lock(mutex_);
    const auto all_ended = [&] { return count_ == num_ranks; };
    changed_.wait(lock, [&] { return all_ended() || !failure.message().empty(); });
    return changed_.wait_for(lock, patience, all_ended);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

}  // namespace

void run_local_ranks(int num_ranks, const std::function<void(Communicator& world)>& rank_program,
                     std::chrono::seconds patience) {
  TS_CHECK(num_ranks >= 1, "ranks: found {}, expected at least 1", num_ranks);
  const auto failure = std::make_shared<local::LocalFailure>();
  const std::shared_ptr<local::LocalGroup> group = local::LocalGroup::make(failure, num_ranks);
  EndedRanks ended;
  const auto run = [&](int rank) {
    try {
      local::LocalCommunicator world(group, rank);
      rank_program(world);
    } catch (...) {
      failure->fail(rank, std::current_exception());
    }
    ended.add();
  };
  std::vector<std::jthread> threads;
  try {
    for (int rank = 0; rank < num_ranks; ++rank) threads.emplace_back(run, rank);
  } catch (const std::system_error& error) {  // those that started must not wait for the others
    const std::string why = fmt::format("found threads for {} of {} ranks: {}", threads.size(), num_ranks,
                                        error.code().message());
    failure->fail(static_cast<int>(threads.size()), std::make_exception_ptr(Error(why)));
  }
  if (!ended.wait_for_all(threads.size(), *failure, patience)) {
    std::fflush(stdout);
    std::fprintf(stderr, "tessera: %s\nother ranks have not ended %lld s later\n", failure->message().c_str(),
                 static_cast<long long>(patience.count()));
    std::_Exit(1);
  }
  threads.clear();  // joins
  if (const std::string message = failure->message(); !message.empty()) throw Error(message);
}

}  // namespace tessera
