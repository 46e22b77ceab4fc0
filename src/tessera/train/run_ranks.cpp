#include "tessera/train/run_ranks.h"

#include "tessera/backend/cuda/cuda_device.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/comm/mpi/mpi_world.h"

namespace tessera {
void run_ranks(const Mesh& mesh, bool under_mpi,
               const std::function<void(Communicator* world)>& rank_program) {
  const std::int64_t num_ranks = std::int64_t{mesh.tp} * mesh.pp * mesh.dp;
  if (under_mpi) {
    run_mpi_rank([&](Communicator& world) {
      TS_CHECK(world.size() == num_ranks,
               "parallel.tp = {} times pp = {} times dp = {} are {} ranks, but the launcher started {}",
               mesh.tp, mesh.pp, mesh.dp, num_ranks, world.size());
      // One rank alone runs as it does without a launcher.
      rank_program(world.size() == 1 ? nullptr : &world);
    });
    return;
  }
  constexpr std::int64_t kMostThreads = 1024;
  TS_CHECK(num_ranks <= kMostThreads,
           "parallel.tp = {} times pp = {} times dp = {} are {} ranks: more than {} need mpirun or srun",
           mesh.tp, mesh.pp, mesh.dp, num_ranks, kMostThreads);
  if (num_ranks == 1) return rank_program(nullptr);
  run_local_ranks(static_cast<int>(num_ranks), [&](Communicator& world) { rank_program(&world); });
}

void run_ranks(const RunConfig& config, bool under_mpi,
               const std::function<void(Communicator* world)>& rank_program) {
  const ParallelKeys& p = config.parallel;
  const bool several = p.tp > 1 || p.pp > 1 || p.dp > 1;
  // Throws here, where no rank of this process is blamed for it.
  if (several && !under_mpi && config.device == DeviceName::cuda && num_cuda_gpus() == 0)
    make_cuda_device(0, nullptr, {});
  run_ranks(Mesh{static_cast<int>(p.pp), static_cast<int>(p.dp), static_cast<int>(p.tp)}, under_mpi,
            rank_program);
}

}  // namespace tessera
