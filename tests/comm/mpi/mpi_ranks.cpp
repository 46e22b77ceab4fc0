// mpi_ranks NUM_RANKS PROGRAM [...]: one rank of a test under mpiexec, of as many as are said. Another MPI's
// mpiexec starts ranks that are each alone, and alone they would pass.
//   conformance        every case, twice in a row
//   nccl               every case of NcclCommunicator on a fake NCCL, whose id MPI carries, in the world and
//   in halves wait WAY RANK      this rank fails while the others wait in a split group abort rank 1 calls
//   abort in a group of its own together           all ranks fail at once forever            prints "pid N"
//   once all ranks have started, and never ends
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "comm/conformance.h"
#include "comm/failing_rank.h"
#include "comm/nccl/nccl_cases.h"
#include "tessera/comm/mpi/mpi_world.h"

namespace tessera {
namespace {

void conform(Communicator& world) {
  for (int round = 0; round < 2; ++round) {
    for (const conformance::Case& c : conformance::cases()) {
      if (world.rank() == 0) fmt::print("{}\n", c.name);
      c.run(world);
    }
  }
}

void conform_with_nccl(Communicator& world) {
  const auto half = world.split(world.rank() % 2, world.rank());
  for (const fake_nccl::Case& c : fake_nccl::cases()) {
    if (world.rank() == 0) fmt::print("{}\n", c.name);
    fake_nccl::run_case(c, world);
    fake_nccl::run_case(c, *half);
  }
}

void wait_in(Communicator& world, const std::string& name, int failing) {
  for (const conformance::Waiting& way : conformance::ways_to_wait()) {
    if (way.name == name) conformance::fail_while_others_wait(world, way, failing, true);
  }
  fail("no way to wait is called {}", name);
}

[[noreturn]] void run_forever(Communicator& world) {
  world.barrier();
  std::printf("pid %d\n", ::getpid());
  std::fflush(stdout);
  std::vector<float> data(100000);
  while (true) world.all_reduce(data.data(), 100000, DType::f32, Reduction::sum);
}

void run(Communicator& world, const std::vector<std::string>& arguments) {
  const std::string& program = arguments.at(1);
  TS_CHECK(std::to_string(world.size()) == arguments[0], "found {} ranks, expected {}", world.size(),
           arguments[0]);
  if (program == "conformance") return conform(world);
  if (program == "nccl") return conform_with_nccl(world);
  if (program == "wait") wait_in(world, arguments.at(2), std::stoi(arguments.at(3)));
  if (program == "abort") {
    const auto alone = world.split(world.rank(), 0);
    if (world.rank() == 1) alone->abort("the disk is full");
    world.barrier();
  }
  if (program == "together") fail("nobody can read it");
  if (program == "forever") run_forever(world);
  fail("no program is called {}", program);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  tessera::run_mpi_rank([&](tessera::Communicator& world) { tessera::run(world, arguments); });
}
