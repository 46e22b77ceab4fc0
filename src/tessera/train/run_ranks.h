// run_ranks: starts the ranks of a run, or joins those that a launcher has started.
#pragma once

#include <functional>

#include "tessera/comm/communicator.h"
#include "tessera/graph/mesh.h"
#include "tessera/train/run_config.h"

namespace tessera {

// Under mpirun or srun (`under_mpi`) this process is one rank, and as many as the mesh has must have been
// started: the error names the numbers. Otherwise one rank runs here, with a null communicator, and
// several run as threads. The first rank's failure ends all and is thrown, or under MPI printed.
void run_ranks(const Mesh& mesh, bool under_mpi,
               const std::function<void(Communicator* world)>& rank_program);
// On the mesh of parallel.*.
void run_ranks(const RunConfig& config, bool under_mpi,
               const std::function<void(Communicator* world)>& rank_program);

}  // namespace tessera
