// run_mpi_rank: this process as one rank of a program that mpirun or srun started. Called by train when
// launched_by_mpi says so.
#pragma once

#include <functional>

#include "tessera/comm/communicator.h"

namespace tessera {

// Joins the other processes, calls rank_program(world) on this thread and leaves when all have ended. Once
// per process: MPI starts only once.
//
// If rank_program throws, prints "rank N: <its message>" and ends all ranks, with exit code 1: this never
// returns. In a build without MPI it throws Error at once.
void run_mpi_rank(const std::function<void(Communicator& world)>& rank_program);

}  // namespace tessera
