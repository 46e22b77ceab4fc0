// Timelines as a reader sees them, and traces read back by a JSON parser.
#include "tessera/pipeline/timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera {
namespace {

struct Timed {
  Schedule schedule;
  ScheduleTiming timing;
};

Timed timed(ScheduleKind kind, int pp, int chunks, int micro_batches, double forward = 1,
            double backward = 2) {
  Schedule schedule = make_schedule(kind, pp, chunks, micro_batches);
  ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, forward, backward));
  return {std::move(schedule), std::move(timing)};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Timeline, DrawsOneRowPerRank) {
  const Timed t = timed(ScheduleKind::one_f_one_b, 2, 1, 2);
  EXPECT_EQ(timeline_text(t.schedule, t.timing),
            "1f1b: 2 ranks, 2 micro-batches; makespan 9, the ranks wait 33.3 % of it\n"
            "F3 and B3 are forward and backward of micro-batch 3; dots are waiting; a column is 0.333\n"
            "rank 0 |F0|F1......|B0   ...|B1     33.3 %\n"
            "rank 1 ...|F0|B0   |F1|B1   ......  33.3 %\n");
}

TEST(Timeline, NamesChunks) {
  const Timed t = timed(ScheduleKind::interleaved, 2, 2, 2, 1, 1);
  EXPECT_EQ(timeline_text(t.schedule, t.timing),
            "interleaved: 2 ranks, 2 chunks each, 2 micro-batches; makespan 10, the ranks wait 20.0 % of it\n"
            "F3 and B3 are forward and backward of micro-batch 3, F3:1 is in chunk 1; dots are waiting; a "
            "column is "
            "0.2\n"
            "rank 0 |F0:0|F1:0|F0:1|F1:1.....|B0:1.....|B1:1|B0:0|B1:0  20.0 %\n"
            "rank 1 .....|F0:0|F1:0|F0:1|B0:1|F1:1|B1:1|B0:0|B1:0.....  20.0 %\n");
}

TEST(Timeline, ShowsBeginningAndEndOfALongStep) {
  const Timed t = timed(ScheduleKind::one_f_one_b, 2, 1, 100);
  const std::vector<std::string> lines = lines_of(timeline_text(t.schedule, t.timing, 60));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], "~ leaves out the time from 5.5 to 297.5");
  EXPECT_EQ(lines[3], "rank 0 |F0 |F1 ........|B0   ~##|B98    ....|B99       1.0 %");
  EXPECT_EQ(lines[4].size(), lines[3].size());
}

TEST(Timeline, NeverExceedsTheWidth) {
  for (const int width : {40, 60, 80, 120, 200}) {
    for (const int m : {1, 3, 10, 1000}) {
      const Timed t = timed(ScheduleKind::one_f_one_b, 12, 1, m);
      for (const std::string& line : lines_of(timeline_text(t.schedule, t.timing, width))) {
        if (line.starts_with("rank")) {
          EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
        }
      }
    }
  }
}

TEST(Timeline, DrawsBlocksWithoutRoomForTheirName) {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 1);
  const ScheduleTiming timing = time_schedule(schedule, {.forward = {1, 8}, .backward = {8, 8}});
  const std::vector<std::string> lines = lines_of(timeline_text(schedule, timing));
  EXPECT_EQ(lines[2], "rank 0 |#...............................|B0              64.0 %");
  EXPECT_EQ(lines[3], "rank 1 ..|F0            |B0             ...............  36.0 %");
}

TEST(Timeline, NothingToDrawIsStillATimeline) {
  const Timed t = timed(ScheduleKind::gpipe, 1, 1, 1, 0, 0);
  EXPECT_EQ(lines_of(timeline_text(t.schedule, t.timing)).size(), 3u);
}

TEST(Trace, HasAProcessPerRankAndAnEventPerProgram) {
  const Timed t = timed(ScheduleKind::interleaved, 2, 2, 3, 0.001, 0.002);
  const auto trace = nlohmann::json::parse(timeline_trace(t.schedule, t.timing));
  std::size_t programs = 0;
  for (const auto& event : trace.at("traceEvents")) {
    const int rank = event.at("pid").get<int>();
    ASSERT_TRUE(rank == 0 || rank == 1);
    if (event.at("ph") != "X") {
      EXPECT_EQ(event.at("ph"), "M");
      continue;
    }
    ++programs;
    const bool forward = event.at("cat") == "forward";
    const auto& args = event.at("args");
    EXPECT_EQ(event.at("name"), fmt::format("{}{}:{}", forward ? 'F' : 'B', args.at("micro_batch").get<int>(),
                                            args.at("chunk").get<int>()));
    EXPECT_EQ(args.at("stage").get<int>(), 2 * args.at("chunk").get<int>() + rank);
    EXPECT_DOUBLE_EQ(event.at("dur").get<double>(), forward ? 1000 : 2000);  // microseconds
    EXPECT_LE(event.at("ts").get<double>() + event.at("dur").get<double>(), t.timing.makespan * 1e6 + 1e-3);
  }
  EXPECT_EQ(programs, 2u * 2 * 2 * 3);
}

}  // namespace
}  // namespace tessera
