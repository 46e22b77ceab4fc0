#include <gtest/gtest.h>

#include <cstdio>

#include "tessera/pipeline/schedule_check.h"
#include "tessera/pipeline/timeline.h"

namespace tessera {
namespace {

struct Block {
  double x = 0, y = 0, width = 0;
  bool forward = false;
  std::string name;
};

// The blocks of the picture, from its own text.
std::vector<Block> blocks_of(const std::string& svg) {
  std::vector<Block> blocks;
  for (std::size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) {
    const std::size_t start = svg.rfind("<rect", at);
    Block block;
    EXPECT_EQ(std::sscanf(svg.c_str() + start, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &block.x, &block.y,
                          &block.width),
              3);
    block.forward = svg.substr(start, at - start).find("timeline-forward") != std::string::npos;
    block.name = svg.substr(at + 7, svg.find('<', at + 7) - at - 7);
    blocks.push_back(block);
  }
  return blocks;
}

class TimelineSvgTest : public testing::TestWithParam<ScheduleKind> {};
INSTANTIATE_TEST_SUITE_P(Schedules, TimelineSvgTest,
                         testing::Values(ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                         ScheduleKind::interleaved),
                         [](const auto& kind) {
                           const std::string name(schedule_name(kind.param));
                           return name == "1f1b" ? "one_f_one_b" : name;
                         });

// Every forward and backward where the timing has it, in percent of the whole.
TEST_P(TimelineSvgTest, DrawsEveryBlockAtItsTime) {
  const int chunks = GetParam() == ScheduleKind::interleaved ? 2 : 1;
  const Schedule schedule = make_schedule(GetParam(), 4, chunks, 8);
  const ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, 1, 2));
  const std::vector<Block> blocks = blocks_of(timeline_svg(schedule, timing));
  ASSERT_EQ(blocks.size(), static_cast<std::size_t>(4 * chunks * 8 * 2));
  const double left = 84, room = 960 - 84 - 84;
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Instruction& instruction = schedule.ranks[rank][i];
      if (!instruction.is_compute()) continue;
      const Block& block = blocks[next++];
      const TimeSpan& span = timing.spans[rank][i];
      EXPECT_NEAR(block.x, left + room * span.begin / timing.makespan, 0.01) << block.name;
      EXPECT_NEAR(block.width, room * (span.end - span.begin) / timing.makespan, 1.01) << block.name;
      EXPECT_EQ(block.y, 34 + 30 * static_cast<double>(rank)) << block.name;
      EXPECT_EQ(block.forward, instruction.kind == Instruction::forward) << block.name;
      EXPECT_TRUE(
          block.name.starts_with((block.forward ? "F" : "B") + std::to_string(instruction.micro_batch)));
    }
  }
}

TEST(TimelineSvg, SaysHowLongEachRankWaits) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2);
  const std::string svg = timeline_svg(schedule, time_schedule(schedule, uniform_cost(schedule, 1, 2)));
  EXPECT_NE(svg.find(">rank 1</text>"), std::string::npos);
  EXPECT_NE(svg.find(">33.3 %</text>"), std::string::npos);
  EXPECT_NE(svg.find(">100</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace tessera
