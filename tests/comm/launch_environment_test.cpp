// Which environments are those of a launched rank.
#include "tessera/comm/launch_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tessera {
namespace {

bool launched(const std::map<std::string, std::string>& variables) {
  return launched_by_mpi([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchEnvironment, KnowsTheLaunchers) {
  EXPECT_TRUE(launched({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(launched({{"PMIX_RANK", "0"}}));
  EXPECT_TRUE(launched({{"PMI_RANK", "3"}}));
}

TEST(LaunchEnvironment, ABatchScriptIsNoRank) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

}  // namespace
}  // namespace tessera
