// check_rank: the part of check_schedule that looks at one rank's list alone: everything happens once, in an
// order the rank's own data allows, and in slots that are free. Apart because messages between ranks do not
// matter to it.
#pragma once

#include <string>

#include "tessera/pipeline/schedule.h"

namespace tessera {

// Throws an Error that names the instruction, or returns the most micro-batches in flight at once.
int check_rank(const Schedule& schedule, int rank);

// For messages: "rank 1, instruction 5 (forward chunk 0 micro-batch 2 slot 1)".
std::string instruction_place(const Schedule& schedule, int rank, int index);

}  // namespace tessera
