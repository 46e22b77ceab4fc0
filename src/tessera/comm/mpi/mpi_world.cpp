#include "tessera/comm/mpi/mpi_world.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tessera/comm/failure_message.h"
#include "tessera/comm/mpi/mpi_call.h"
#include "tessera/comm/mpi/mpi_communicator.h"

namespace tessera {
namespace mpi {

// Ranks often fail together and of the same cause, a file that none can read. Rank 0 speaks first, and takes
// the others with it before they repeat what it said: on a busy machine that has taken more than a second.
void report_and_abort(int world_rank, const std::string& message) {
  if (world_rank != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  std::fflush(stdout);
  std::fprintf(stderr, "tessera: %s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();  // MPI_Abort does not return, but is not declared so
}

}  // namespace mpi

// One thread calls MPI at a time, but not always the one that started it.
void run_mpi_rank(const std::function<void(Communicator& world)>& rank_program) {
  int running = 0, provided = 0;
  MPI_Initialized(&running);
  TS_CHECK(running == 0, "MPI has been started before in this process, and it starts only once");
  mpi::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  MPI_Comm comm = MPI_COMM_NULL;
  mpi::check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  mpi::check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  {
    mpi::PendingSends sends;
    mpi::MpiCommunicator world(comm, sends);
    try {
      TS_CHECK(provided >= MPI_THREAD_SERIALIZED, "MPI gives no MPI_THREAD_SERIALIZED, which tessera needs");
      rank_program(world);
      sends.wait();
    } catch (...) {
      mpi::report_and_abort(world.rank(), failure_message(world.rank(), std::current_exception()));
    }
  }
  mpi::check_mpi(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace tessera
