// tuned_choices: the fastest ways to compute what a run computes on this kind of device, found by trying.
// Called by `tessera tune`.
#pragma once

#include <functional>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/train/run_config.h"

namespace tessera {

// Runs one step on random tokens and then searches, one rank after the other: nothing else may use a GPU that
// is timed, and each tries only what none before it has. Collective over `world`, which is null on one rank;
// all get the same text, for cuda.tuning.
std::string tuned_choices(const RunConfig& config, Communicator* world,
                          const std::function<void(const std::string&)>& say);

}  // namespace tessera
