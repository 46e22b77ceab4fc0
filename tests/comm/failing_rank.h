// Programs in which the last rank fails while the others wait for it, one per way of waiting. Run over
// comm/local by local_world_test and over comm/mpi by mpi_failure_test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::conformance {

struct Waiting {
  const char* name;
  void (*wait)(Communicator& world);  // called by all ranks but the last, and never returns
};

template <std::int64_t Count>
void wait_in_all_reduce(Communicator& world) {
  std::vector<float> data(Count);
  world.all_reduce(data.data(), Count, DType::f32, Reduction::sum);
}

inline const std::vector<Waiting>& ways_to_wait() {
  static const std::vector<Waiting> kWays{
      {"short_all_reduce", wait_in_all_reduce<1>},
      {"long_all_reduce", wait_in_all_reduce<100000>},
      {"all_gather",
       [](Communicator& world) {
         std::vector<float> part(5000), whole(static_cast<std::size_t>(5000 * world.size()));
         world.all_gather(part.data(), whole.data(), {1, 5000}, DType::f32);
       }},
      {"reduce_scatter",
       [](Communicator& world) {
         std::vector<float> part(5000), whole(static_cast<std::size_t>(5000 * world.size()));
         world.reduce_scatter(whole.data(), part.data(), {1, 5000}, DType::f32, Reduction::sum);
       }},
      {"broadcast",
       [](Communicator& world) {
         std::vector<float> data(5000);
         world.broadcast(data.data(), 5000 * 4, world.size() - 1);
       }},
      {"receive",
       [](Communicator& world) {
         float data = 0;
         world.receive(&data, 4, world.size() - 1, 0);
       }},
      {"barrier", [](Communicator& world) { world.barrier(); }},
      {"split", [](Communicator& world) { world.split(0, world.rank()); }},
  };
  return kWays;
}

// The failure's message is "gave up". `in_a_split`: the others wait in a group of their own rank order.
inline void fail_while_others_wait(Communicator& world, const Waiting& way, bool in_a_split) {
  std::unique_ptr<Communicator> group;
  if (in_a_split) group = world.split(0, world.rank());
  Communicator& used = in_a_split ? *group : world;
  if (world.rank() == world.size() - 1) fail("gave up");
  way.wait(used);
  fail("rank {} did not wait in {}", world.rank(), way.name);
}

}  // namespace tessera::conformance
