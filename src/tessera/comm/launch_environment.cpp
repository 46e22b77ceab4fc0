#include "tessera/comm/launch_environment.h"

namespace tessera {

bool launched_by_mpi(const std::function<const char*(const char*)>& environment) {
  // Open MPI's mpirun; srun --mpi=pmix; srun --mpi=pmi2 and MPICH's mpirun. SLURM_PROCID proves nothing: a
  // batch script has it too.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (environment(name) != nullptr) return true;
  }
  return false;
}

}  // namespace tessera
