// check_mpi: turns the error code of an MPI call into an Error that says what MPI says.
#pragma once

#include <mpi.h>

namespace tessera::mpi {

void check_mpi(int code, const char* call);

}  // namespace tessera::mpi
