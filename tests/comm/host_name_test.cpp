#include "tessera/comm/host_name.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/utsname.h>

#include "tessera/base/philox.h"
#include "tessera/base/usable_cores.h"
#include "tessera/comm/device_communicator.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

TEST(HostName, ThreadsAreNumberedByRank) {
  run_local_ranks(3, [](Communicator& world) { EXPECT_EQ(rank_on_host(world), world.rank()); });
}

TEST(HostName, RanksShareTheCoresThatTheyAreBoundTo) {
  run_local_ranks(3, [](Communicator& world) { EXPECT_EQ(ranks_on_same_cores(world), 3); });
  const bool only_one = num_usable_cores() == 1;  // to which all are bound as it is
  run_local_ranks(3, [&](Communicator& world) {
    const bool bound = world.rank() == 1;
    if (bound) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
      TS_CHECK(::sched_setaffinity(0, sizeof(one), &one) == 0, "cannot be bound");
    }
    EXPECT_EQ(ranks_on_same_cores(world), only_one ? 3 : bound ? 1 : 2);
  });
}

TEST(HostName, IsHashedWhole) {
  utsname system{};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_EQ(host_name_hash(), static_cast<std::int64_t>(name_hash(system.nodename)));
}

TEST(TensorRanges, CoverAllElementsInOrder) {
  for (std::int64_t count : {0, 1, 2, 5, 6, 7, 100}) {
    for (int num_ranks : {1, 2, 3, 4}) {
      std::int64_t end = 0;
      for (int rank = 0; rank < num_ranks; ++rank) {
        const TensorRange range = range_of(count, num_ranks, rank);
        EXPECT_EQ(range.begin, end);
        EXPECT_LE(range.count, (count + num_ranks - 1) / num_ranks);
        end = range.begin + range.count;
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace tessera
