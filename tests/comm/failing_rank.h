// Programs in which one rank fails while the others wait for it, one per way of waiting. Run over comm/local
// by local_world_test and over comm/mpi by mpi_failure_test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::conformance {

struct Waiting {
  const char* name;
  void (*wait)(Communicator& world, int failing);  // called by all ranks but that one, and never returns
};

template <std::int64_t Count>
void wait_in_all_reduce(Communicator& world, int) {
  std::vector<float> data(Count);
  world.all_reduce(data.data(), Count, DType::f32, Reduction::sum);
}

inline const std::vector<Waiting>& ways_to_wait() {
  static const std::vector<Waiting> kWays{
      {"short_all_reduce", wait_in_all_reduce<1>},
      {"long_all_reduce", wait_in_all_reduce<100000>},
      {"all_gather",
       [](Communicator& world, int) {
         std::vector<float> part(5000), whole(static_cast<std::size_t>(5000 * world.size()));
         world.all_gather(part.data(), whole.data(), {1, 5000}, DType::f32);
       }},
      {"reduce_scatter",
       [](Communicator& world, int) {
         std::vector<float> part(5000), whole(static_cast<std::size_t>(5000 * world.size()));
         world.reduce_scatter(whole.data(), part.data(), {1, 5000}, DType::f32, Reduction::sum);
       }},
      {"broadcast",
       [](Communicator& world, int failing) {
         std::vector<float> data(5000);
         world.broadcast(data.data(), 5000 * 4, failing);
       }},
      {"receive",
       [](Communicator& world, int failing) {
         float data = 0;
         world.receive(&data, 4, failing, 0);
       }},
      {"barrier", [](Communicator& world, int) { world.barrier(); }},
      {"split", [](Communicator& world, int) { world.split(0, world.rank()); }},
  };
  return kWays;
}

// The failure's message is "gave up". `in_a_split`: the others wait in a group of their own rank order.
inline void fail_while_others_wait(Communicator& world, const Waiting& way, int failing, bool in_a_split) {
  std::unique_ptr<Communicator> group;
  if (in_a_split) group = world.split(0, world.rank());
  Communicator& used = in_a_split ? *group : world;
  if (world.rank() == failing) fail("gave up");
  way.wait(used, failing);
  fail("rank {} did not wait in {}", world.rank(), way.name);
}

}  // namespace tessera::conformance
