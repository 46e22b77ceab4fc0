#include "tessera/data/document_split.h"

#include <gtest/gtest.h>

#include "data/scratch_folder.h"

namespace tessera {
namespace {

std::vector<std::int64_t> bounds(const std::string& weights, std::int64_t size) {
  const auto parts = split_documents(weights, size);
  EXPECT_EQ(parts[0].begin, 0);
  EXPECT_EQ(parts[0].end, parts[1].begin);
  EXPECT_EQ(parts[1].end, parts[2].begin);
  EXPECT_EQ(parts[2].end, size);
  return {parts[0].end, parts[1].end, parts[2].end};
}

using Bounds = std::vector<std::int64_t>;

TEST(DocumentSplit, RoundsAsMegatronDoes) {
  EXPECT_EQ(bounds("980,10,10", 57), (Bounds{55, 56, 57}));  // the golden corpus's
  EXPECT_EQ(bounds("980,10,10", 1000), (Bounds{980, 990, 1000}));
  EXPECT_EQ(bounds("1,1", 5), (Bounds{3, 5, 5}));      // 2.5 rounds to 2, twice; then all move by one
  EXPECT_EQ(bounds("1/1/2", 10), (Bounds{3, 5, 10}));  // 2.5 to 2, 2.5 to 2, 5: one short
  EXPECT_EQ(bounds("100", 7), (Bounds{7, 7, 7}));
  EXPECT_EQ(bounds("0,0,1", 7), (Bounds{0, 0, 7}));
  EXPECT_EQ(bounds(" 0.5, 0.25 ,0.25,9", 8), (Bounds{4, 6, 8}));
}

TEST(DocumentSplit, StaysWithinTheDocuments) {
  EXPECT_EQ(bounds("0,1,1", 3), (Bounds{0, 1, 3}));  // 1.5 rounds to 2, twice; Megatron: -1, 1, 3
  EXPECT_EQ(bounds("0,1,1", 7), (Bounds{0, 3, 7}));
  for (const char* weights : {"0,1,1", "0,0,1", "1,1,0", "0,1,2", "1,0,1", "1,1,1", "0,1,0"}) {
    for (std::int64_t size = 0; size < 40; ++size) {
      const Bounds found = bounds(weights, size);
      EXPECT_TRUE(found[0] >= 0 && found[0] <= found[1] && found[1] <= size) << weights << " of " << size;
    }
  }
}

TEST(DocumentSplit, RefusesWhatIsNoSplit) {
  expect_error([] { split_documents("0,0,0", 10); }, "\"0,0,0\"", "add up to 0");
  expect_error([] { split_documents("a,b", 10); }, "\"a,b\"", "found \"a\"");
  expect_error([] { split_documents("1,-1", 10); }, "found \"-1\"");
  expect_error([] { split_documents("", 10); }, "found \"\"");
  expect_error([] { part_named("dev"); }, "\"dev\"", "train, valid or test");
  EXPECT_EQ(part_name(part_named("valid")), "valid");
}

}  // namespace
}  // namespace tessera
