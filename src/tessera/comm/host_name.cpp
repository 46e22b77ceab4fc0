#include "tessera/comm/host_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/philox.h"
#include "tessera/base/usable_cores.h"

namespace tessera {

std::int64_t host_name_hash() {
  std::array<char, 256> name{};
  TS_CHECK(::gethostname(name.data(), name.size() - 1) == 0, "this machine has no name");
  return static_cast<std::int64_t>(name_hash(std::string_view(name.data())));
}

namespace {

// Of all ranks.
std::vector<std::int64_t> gathered(Communicator& world, std::int64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, all.data(), {1, 2}, DType::i32);
  return all;
}

}  // namespace

int rank_on_host(Communicator& world) {
  const std::int64_t own = host_name_hash();
  const std::vector<std::int64_t> all = gathered(world, own);
  return static_cast<int>(std::count(all.begin(), all.begin() + world.rank(), own));
}

int ranks_on_same_cores(Communicator& world) {
  const auto own = static_cast<std::int64_t>(
      name_hash(std::to_string(host_name_hash()) + ' ' + std::to_string(usable_cores_hash())));
  return static_cast<int>(std::ranges::count(gathered(world, own), own));
}

}  // namespace tessera
