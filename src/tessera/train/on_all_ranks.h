// on_all_ranks: work in which nobody talks (reading data), and which may fail on some of the ranks. Before
// anyone goes on, all know whether all have failed: only then can they do something together, such as saving,
// before they stop.
#pragma once

#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

// The work failed on every rank.
class FailedOnAll : public Error {
 public:
  using Error::Error;
};

// Throws FailedOnAll where all ranks have an Error, or the only one has. Otherwise those that have one throw
// it: the other ranks have gone on, and whoever waits for them now waits for ever. Collective over the world,
// which is null on one rank.
template <class Work>
void on_all_ranks(Communicator* world, Work&& work) {
  std::string problem;
  float failed = 0;
  try {
    work();
  } catch (const Error& e) {
    problem = e.what();
    failed = 1;
  }
  float num_failed = failed;
  if (world) world->all_reduce(&num_failed, 1, DType::f32, Reduction::sum);
  if (failed == 0) return;
  if (world && num_failed < static_cast<float>(world->size())) throw Error(problem);
  throw FailedOnAll(problem);
}

}  // namespace tessera
