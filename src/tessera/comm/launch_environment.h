// Whether a launcher started this process as one rank of many. Asked by cli, which alone reads the
// environment, to choose between run_mpi_rank and run_local_ranks.
#pragma once

#include <functional>

namespace tessera {

// `environment` gives a variable's value, or nullptr. True under mpirun and under srun with an MPI plug-in,
// also in a build without MPI: what would then be n runs of one rank each has to be refused.
bool launched_by_mpi(const std::function<const char*(const char*)>& environment);

}  // namespace tessera
