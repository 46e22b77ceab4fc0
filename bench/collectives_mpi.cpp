// bench_collectives_mpi [repetitions], under mpirun: the collectives of comm/mpi against the memcpy bound and
// against MPI's own, which may add in any order.
#include <mpi.h>

#include "arguments.h"
#include "collectives_timing.h"
#include "tessera/comm/mpi/mpi_world.h"

namespace tessera::bench {
namespace {

void add_raw_mpi(CollectiveTimings& timings, std::int64_t bytes, int num_ranks) {
  const int count = static_cast<int>(bytes / 4), part = count / num_ranks;
  timings.add("MPI_Allreduce", [&timings, count] {
    MPI_Allreduce(MPI_IN_PLACE, timings.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  timings.add("MPI_Reduce_scatter_block", [&timings, part] {
    MPI_Reduce_scatter_block(timings.data(), timings.part(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  timings.add("MPI_Allgather", [&timings, part] {
    MPI_Allgather(timings.part(), part, MPI_FLOAT, timings.other(), part, MPI_FLOAT, MPI_COMM_WORLD);
  });
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  const int repetitions =
      tessera::bench::only_argument(argc, argv, 10, "bench_collectives_mpi [REPETITIONS]");
  tessera::run_mpi_rank([&](tessera::Communicator& world) {
    for (const std::int64_t bytes : {tessera::bench::kLongBytes, tessera::bench::kShortBytes}) {
      tessera::bench::CollectiveTimings timings(world, bytes);
      tessera::bench::add_raw_mpi(timings, bytes, world.size());
      timings.run(bytes == tessera::bench::kLongBytes ? repetitions : 20 * repetitions);
      timings.print();
    }
  });
}
