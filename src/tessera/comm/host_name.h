// Which machine this is, and which of its ranks: asked by those who share its GPUs and its cores out.
#pragma once

#include <cstdint>

#include "tessera/comm/communicator.h"

namespace tessera {

// The same for all processes of a machine, and for no two machines with different names.
std::int64_t host_name_hash();

// The number of ranks on this machine that come before this one. Collective over the world.
int rank_on_host(Communicator& world);

// The number of ranks that run on the same cores as this one, itself included: those of this machine that are
// bound to the same ones, which is all of them if nobody bound them. Collective over the world.
int ranks_on_same_cores(Communicator& world);

}  // namespace tessera
