// Which machine this is, and which of its ranks: asked by those who share its GPUs out.
#pragma once

#include <cstdint>

#include "tessera/comm/communicator.h"

namespace tessera {

// The same for all processes of a machine, and for no two machines with different names.
std::int64_t host_name_hash();

// The number of ranks on this machine that come before this one. Collective over the world.
int rank_on_host(Communicator& world);

}  // namespace tessera
