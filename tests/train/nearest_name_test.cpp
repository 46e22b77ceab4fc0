#include "tessera/train/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

TEST(NearestName, FindsSlipsAndRightWordsInWrongSections) {
  const std::vector<std::string> names = {"train.steps", "train.seed", "optimizer.lr", "optimizer.eps",
                                          "--resume"};
  EXPECT_EQ(nearest_name("train.stpes", names), "train.steps");
  EXPECT_EQ(nearest_name("train.step", names), "train.steps");
  EXPECT_EQ(nearest_name("train.lr", names), "optimizer.lr");
  EXPECT_EQ(nearest_name("eps", names), "optimizer.eps");
  EXPECT_EQ(nearest_name("--reusme", names), "--resume");
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> names = {"train.steps", "optimizer.lr"};
  EXPECT_EQ(nearest_name("pipeline.schedule", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("train.steps", {}), "");
  EXPECT_EQ(did_you_mean("zzz", names), "");
  const std::vector<std::string> devices = {"cpu", "cuda", "null"};
  EXPECT_EQ(nearest_name("gpu", devices), "");
  EXPECT_EQ(nearest_name("cup", devices), "cpu");
  EXPECT_EQ(did_you_mean("train.stepz", names), "; did you mean 'train.steps'?");
}

}  // namespace
}  // namespace tessera
