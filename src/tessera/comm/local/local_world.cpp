#include "tessera/comm/local/local_world.h"

#include <thread>
#include <vector>

#include "tessera/comm/local/local_communicator.h"

namespace tessera {

void run_local_ranks(int num_ranks, const std::function<void(Communicator& world)>& rank_program) {
  TS_CHECK(num_ranks >= 1, "ranks: found {}, expected at least 1", num_ranks);
  const auto failure = std::make_shared<local::LocalFailure>();
  const std::shared_ptr<local::LocalGroup> group = local::LocalGroup::make(failure, num_ranks);
  const auto run = [&](int rank) {
    try {
      local::LocalCommunicator world(group, rank);
      rank_program(world);
    } catch (...) {
      failure->fail(rank, std::current_exception());
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (int rank = 0; rank < num_ranks; ++rank) threads.emplace_back(run, rank);
  } catch (...) {  // no thread for this rank: those that started must not wait for it
    failure->fail(static_cast<int>(threads.size()), std::current_exception());
  }
  threads.clear();  // joins
  failure->rethrow();
}

}  // namespace tessera
