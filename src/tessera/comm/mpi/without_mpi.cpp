// All there is of comm/mpi where MPI was not found.
#include "tessera/comm/mpi/mpi_world.h"

namespace tessera {

void run_mpi_rank(const std::function<void(Communicator& world)>&) {
  fail(
      "an MPI launcher started this process, but this tessera was built without MPI: install libopenmpi-dev "
      "and "
      "openmpi-bin and build it again");
}

}  // namespace tessera
