// run_local_ranks: a program of n ranks inside this process. Called by train when no MPI launcher started it.
#pragma once

#include <chrono>
#include <functional>

#include "tessera/comm/communicator.h"

namespace tessera {

// Calls rank_program(world) once per rank, each on a thread of its own, and returns when all have ended.
//
// When a rank throws, every rank that is in a call of the world or of a split of it, or enters one later,
// throws PeerFailed. When all have ended, the first failure is thrown as Error("rank N: <its message>").
// A rank that waits inside a driver, for a GPU's kernel that waits for the failed rank, hears of nothing: if
// some have not ended `patience` after a failure, it is printed and the process ends, with 1.
void run_local_ranks(int num_ranks, const std::function<void(Communicator& world)>& rank_program,
                     std::chrono::seconds patience = std::chrono::minutes(2));

}  // namespace tessera
