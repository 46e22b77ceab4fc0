// The conformance cases over threads, also with more ranks than cores.
#include <gtest/gtest.h>

#include "comm/conformance.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

class LocalRanks : public testing::TestWithParam<int> {};

TEST_P(LocalRanks, ConformInEveryCase) {
  for (const conformance::Case& c : conformance::cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_NO_THROW(run_local_ranks(GetParam(), c.run));
  }
}

TEST(LocalConformance, HoldsForAllCasesInOneProgramTwice) {
  EXPECT_NO_THROW(run_local_ranks(4, [](Communicator& world) {
    for (int round = 0; round < 2; ++round) {
      for (const conformance::Case& c : conformance::cases()) c.run(world);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Conformance, LocalRanks, testing::Values(1, 2, 3, 4, 8));

}  // namespace
}  // namespace tessera
