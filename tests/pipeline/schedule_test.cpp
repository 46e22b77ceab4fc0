// The schedules against the counts and orders the literature gives, and against lists written out by hand.
#include "tessera/pipeline/schedule.h"

#include <gtest/gtest.h>

#include "pipeline/error_of.h"

namespace tessera {
namespace {

// "F0 F1 B0 B1", or with chunks "F0:0 F0:1".
std::string programs_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const Instruction& i : schedule.ranks[rank]) {
    if (!i.is_compute()) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", i.kind == Instruction::forward ? 'F' : 'B',
                        i.micro_batch);
    if (schedule.num_chunks > 1) text += fmt::format(":{}", i.chunk);
  }
  return text;
}

std::string list_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const Instruction& i : schedule.ranks[rank]) text += instruction_text(i) + "\n";
  return text;
}

TEST(Schedule, NamesAreThoseOfTheConfig) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
    EXPECT_EQ(parse_schedule_kind(schedule_name(kind)), kind);
  }
  EXPECT_EQ(schedule_name(ScheduleKind::one_f_one_b), "1f1b");
  EXPECT_EQ(error_of([] { parse_schedule_kind("1F1B"); }),
            "pipeline.schedule: found '1F1B', expected gpipe, 1f1b or interleaved");
}

TEST(Schedule, GPipeRunsAllForwardsFirst) {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 3, 1, 4);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(programs_of(schedule, rank), "F0 F1 F2 F3 B0 B1 B2 B3");
    EXPECT_EQ(schedule.slots_needed[rank], std::vector<int>{4});
  }
}

TEST(Schedule, OneForwardOneBackward) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 1, 4);
  EXPECT_EQ(programs_of(schedule, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(programs_of(schedule, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(programs_of(schedule, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

// Two ranks of two chunks, four micro-batches: the warm-up of rank 0 is 2 * 1 + 1 * 2 = 4 forwards and that
// of rank 1 is 2, as in Megatron-LM's interleaved schedule.
TEST(Schedule, Interleaved) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 2, 2, 4);
  EXPECT_EQ(programs_of(schedule, 0),
            "F0:0 F1:0 F0:1 F1:1 F2:0 B0:1 F3:0 B1:1 F2:1 B0:0 F3:1 B1:0 B2:1 B3:1 B2:0 B3:0");
  EXPECT_EQ(programs_of(schedule, 1),
            "F0:0 F1:0 F0:1 B0:1 F1:1 B1:1 F2:0 B0:0 F3:0 B1:0 F2:1 B2:1 F3:1 B3:1 B2:0 B3:0");
}

// Three micro-batches on two ranks make one group of three.
TEST(Schedule, InterleavedTakesAnyNumberOfMicroBatches) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 2, 2, 3);
  EXPECT_EQ(programs_of(schedule, 1), "F0:0 F1:0 F2:0 F0:1 B0:1 F1:1 B1:1 F2:1 B2:1 B0:0 B1:0 B2:0");
}

TEST(Schedule, InterleavedWithOneChunkIsOneForwardOneBackward) {
  Schedule schedule = make_schedule(ScheduleKind::interleaved, 4, 1, 6);
  schedule.kind = ScheduleKind::one_f_one_b;
  EXPECT_EQ(schedule, make_schedule(ScheduleKind::one_f_one_b, 4, 1, 6));
}

TEST(Schedule, MessagesStandNextToTheirProgram) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 1, 2);
  EXPECT_EQ(list_of(schedule, 1),
            "receive_activation chunk 0 micro-batch 0 slot 0\n"
            "forward chunk 0 micro-batch 0 slot 0\n"
            "send_activation chunk 0 micro-batch 0 slot 0\n"
            "receive_activation chunk 0 micro-batch 1 slot 1\n"
            "forward chunk 0 micro-batch 1 slot 1\n"
            "send_activation chunk 0 micro-batch 1 slot 1\n"
            "receive_gradient chunk 0 micro-batch 0 slot 0\n"
            "backward chunk 0 micro-batch 0 slot 0\n"
            "send_gradient chunk 0 micro-batch 0 slot 0\n"
            "receive_gradient chunk 0 micro-batch 1 slot 1\n"
            "backward chunk 0 micro-batch 1 slot 1\n"
            "send_gradient chunk 0 micro-batch 1 slot 1\n"
            "update\n");
}

TEST(Schedule, OneRankHasNoMessages) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
    const Schedule schedule = make_schedule(kind, 1, 1, 3);
    for (const Instruction& i : schedule.ranks[0]) EXPECT_FALSE(i.is_message());
  }
  EXPECT_EQ(programs_of(make_schedule(ScheduleKind::one_f_one_b, 1, 1, 2), 0), "F0 B0 F1 B1");
}

TEST(Schedule, OneRankWithChunksHandsOverToItself) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 1, 2, 2);
  EXPECT_EQ(programs_of(schedule, 0), "F0:0 F0:1 B0:1 F1:0 B0:0 F1:1 B1:1 B1:0");
  for (const Instruction& i : schedule.ranks[0]) {
    if (i.is_message()) {
      EXPECT_EQ(peer_rank(schedule, 0, i), 0);
    }
  }
}

TEST(Schedule, PeersAreNeighboursInARing) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 4, 2, 4);
  EXPECT_EQ(peer_rank(schedule, 1, {.kind = Instruction::send_activation}), 2);
  EXPECT_EQ(peer_rank(schedule, 3, {.kind = Instruction::send_activation}), 0);
  EXPECT_EQ(peer_rank(schedule, 0, {.kind = Instruction::receive_activation}), 3);
  EXPECT_EQ(peer_rank(schedule, 0, {.kind = Instruction::send_gradient}), 3);
  EXPECT_EQ(peer_rank(schedule, 3, {.kind = Instruction::receive_gradient}), 0);
}

TEST(Schedule, RefusesWhatItCannotMake) {
  const auto message = [](ScheduleKind kind, int stages, int chunks, int micro_batches) {
    return error_of([=] { make_schedule(kind, stages, chunks, micro_batches); });
  };
  EXPECT_EQ(message(ScheduleKind::gpipe, 2, 1, 0),
            "pipeline.schedule gpipe: found 0 micro-batches, expected at least 1");
  EXPECT_EQ(message(ScheduleKind::gpipe, 0, 1, 4), "parallel.pp: found 0, expected at least 1");
  EXPECT_EQ(message(ScheduleKind::interleaved, 2, 0, 4), "pipeline.chunks: found 0, expected at least 1");
  EXPECT_EQ(message(ScheduleKind::one_f_one_b, 64, 1, 1 << 20),
            "pipeline.schedule 1f1b: found 1048576 micro-batches (train.global_batch / train.micro_batch / "
            "parallel.dp) times 1 chunks times 64 stages, expected at most 8000000");
  EXPECT_EQ(message(ScheduleKind::one_f_one_b, 2, 2, 4),
            "pipeline.chunks: found 2 with pipeline.schedule 1f1b, expected 1; only interleaved has several "
            "chunks");
}

}  // namespace
}  // namespace tessera
