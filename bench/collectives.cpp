// bench_collectives [repetitions]: the collectives of 2, 4 and 8 local ranks against the memcpy bound, for a
// long and a short tensor.
#include "arguments.h"
#include "collectives_timing.h"
#include "tessera/comm/local/local_world.h"

int main(int argc, char** argv) {
  const int repetitions = tessera::bench::only_argument(argc, argv, 30, "bench_collectives [REPETITIONS]");
  for (const int num_ranks : {2, 4, 8}) {
    tessera::run_local_ranks(num_ranks, [&](tessera::Communicator& world) {
      for (const std::int64_t bytes : {tessera::bench::kLongBytes, tessera::bench::kShortBytes}) {
        tessera::bench::CollectiveTimings timings(world, bytes);
        timings.run(bytes == tessera::bench::kLongBytes ? repetitions : 100 * repetitions);
        timings.print();
      }
    });
  }
}
