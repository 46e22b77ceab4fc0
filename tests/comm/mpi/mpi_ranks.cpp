// mpi_ranks PROGRAM [...]: one rank of a test under mpiexec.
//   conformance        every case, twice in a row
//   wait WAY           the last rank fails while the others wait in a split group
//   abort              rank 1 calls abort in a group of its own
//   together           all ranks fail at once
//   forever            prints "pid N" once all ranks have started, and never ends
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "comm/conformance.h"
#include "comm/failing_rank.h"
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

void wait_in(Communicator& world, const std::string& name) {
  for (const conformance::Waiting& way : conformance::ways_to_wait()) {
    if (way.name == name) conformance::fail_while_others_wait(world, way, true);
  }
}

[[noreturn]] void run_forever(Communicator& world) {
  world.barrier();
  std::printf("pid %d\n", ::getpid());
  std::fflush(stdout);
  std::vector<float> data(100000);
  while (true) world.all_reduce(data.data(), 100000, DType::f32, Reduction::sum);
}

void run(Communicator& world, const std::vector<std::string>& arguments) {
  if (arguments[0] == "conformance") conform(world);
  if (arguments[0] == "wait") wait_in(world, arguments[1]);
  if (arguments[0] == "abort") {
    const auto alone = world.split(world.rank(), 0);
    if (world.rank() == 1) alone->abort("the disk is full");
    world.barrier();
  }
  if (arguments[0] == "together") fail("nobody can read it");
  if (arguments[0] == "forever") run_forever(world);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  tessera::run_mpi_rank([&](tessera::Communicator& world) { tessera::run(world, arguments); });
}
