// on_all_ranks: work in which nobody talks (reading data), and which may fail on some of the ranks. Before
// anyone goes on, all know whether all have failed: only then can they do something together, such as saving,
// before they stop.
#pragma once

#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

// The work failed here and not everywhere: the other ranks have gone on, and whoever waits for them now waits
// for ever.
class FailedAlone : public Error {
 public:
  using Error::Error;
};

// Throws the work's Error where all ranks have one; otherwise FailedAlone, with its words, on those that do.
// Collective over the world, which is null on one rank.
template <class Work>
void on_all_ranks(Communicator* world, Work&& work) {
  if (world == nullptr) return work();
  std::string problem;
  float failed = 0;
  try {
    work();
  } catch (const Error& e) {
    problem = e.what();
    failed = 1;
  }
  float num_failed = failed;
  world->all_reduce(&num_failed, 1, DType::f32, Reduction::sum);
  if (failed == 0) return;
  if (num_failed < static_cast<float>(world->size())) throw FailedAlone(problem);
  throw Error(problem);
}

}  // namespace tessera
