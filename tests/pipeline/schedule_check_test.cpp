// The checker: what it accepts must hold by an independent look, and every way to break a schedule is named.
#include "tessera/pipeline/schedule_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/error_of.h"
#include "tessera/pipeline/channel.h"

namespace tessera {
namespace {

constexpr auto kKinds = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved};

// Calls f(kind, pp, chunks, micro_batches) for every small combination.
template <class F>
void for_each_small(F f) {
  for (const ScheduleKind kind : kKinds) {
    for (int pp = 1; pp <= 6; ++pp) {
      for (int chunks = 1; chunks <= (kind == ScheduleKind::interleaved ? 4 : 1); ++chunks) {
        for (int m = 1; m <= 3 * pp + 2; ++m) {
          SCOPED_TRACE(
              fmt::format("{} pp {} chunks {} micro-batches {}", schedule_name(kind), pp, chunks, m));
          f(kind, pp, chunks, m);
        }
      }
    }
  }
}

int find(const Schedule& schedule, int rank, Instruction::Kind kind, int micro_batch, int chunk = 0) {
  const auto& list = schedule.ranks[rank];
  const auto found = std::ranges::find_if(list, [&](const Instruction& i) {
    return i.kind == kind && i.micro_batch == micro_batch && i.chunk == chunk;
  });
  EXPECT_NE(found, list.end());
  return static_cast<int>(found - list.begin());
}

void erase(Schedule& schedule, int rank, int index) {
  schedule.ranks[rank].erase(schedule.ranks[rank].begin() + index);
}

std::string refusal(const Schedule& schedule) {
  return error_of([&] { check_schedule(schedule); });
}

// Any order of steps, drawn at random, with queues that know every message by name and slots that know what
// was written to them last.
void expect_runs_in_random_order(const Schedule& schedule, std::mt19937& random) {
  std::vector<std::size_t> at(schedule.ranks.size(), 0);
  std::map<int, std::vector<int>> queues;          // channel: micro-batches sent and not received
  std::map<std::tuple<int, int, int>, int> slots;  // (rank, chunk, slot): the micro-batch written last
  std::vector<std::vector<int>> gradients(static_cast<std::size_t>(schedule.num_global_stages()));
  for (;;) {
    std::vector<int> able;
    for (int rank = 0; rank < schedule.num_stages; ++rank) {
      if (at[rank] == schedule.ranks[rank].size()) continue;
      const Instruction& i = schedule.ranks[rank][at[rank]];
      if (!i.is_receive() || !queues[channel_index(schedule, rank, i)].empty()) able.push_back(rank);
    }
    if (able.empty()) break;
    const int rank = able[random() % able.size()];
    const Instruction& i = schedule.ranks[rank][at[rank]++];
    if (i.is_send()) queues[channel_index(schedule, rank, i)].push_back(i.micro_batch);
    if (i.is_receive()) {
      auto& queue = queues[channel_index(schedule, rank, i)];
      EXPECT_EQ(queue.front(), i.micro_batch);
      queue.erase(queue.begin());
    }
    if (i.kind == Instruction::receive_activation || i.kind == Instruction::forward)
      slots[{rank, i.chunk, i.slot}] = i.micro_batch;
    if (i.kind == Instruction::backward) {
      EXPECT_EQ((slots[{rank, i.chunk, i.slot}]), i.micro_batch);
      gradients[schedule.global_stage(rank, i.chunk)].push_back(i.micro_batch);
    }
  }
  for (std::size_t r = 0; r < at.size(); ++r) EXPECT_EQ(at[r], schedule.ranks[r].size()) << "rank " << r;
  for (const auto& order : gradients) {
    EXPECT_EQ(order.size(), static_cast<std::size_t>(schedule.num_micro_batches));
    EXPECT_TRUE(std::ranges::is_sorted(order));
  }
}

TEST(ScheduleCheck, AcceptsEverySmallScheduleAndEachRuns) {
  std::mt19937 random(7);
  for_each_small([&](ScheduleKind kind, int pp, int chunks, int m) {
    const Schedule schedule = make_schedule(kind, pp, chunks, m);
    EXPECT_EQ(refusal(schedule), "");
    expect_runs_in_random_order(schedule, random);
  });
}

TEST(ScheduleCheck, AcceptsLargeSchedules) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    const int pp = 1 + static_cast<int>(random() % 64);
    const auto kind = static_cast<ScheduleKind>(random() % 3);
    const int chunks = kind == ScheduleKind::interleaved ? 1 + static_cast<int>(random() % 8) : 1;
    const int m = 1 + static_cast<int>(random() % 300);
    EXPECT_EQ(refusal(make_schedule(kind, pp, chunks, m)), "")
        << schedule_name(kind) << " " << pp << " " << chunks << " " << m;
  }
}

TEST(ScheduleCheck, SlotsAndFlightsAreTheKnownNumbers) {
  for_each_small([](ScheduleKind kind, int pp, int chunks, int m) {
    const Schedule schedule = make_schedule(kind, pp, chunks, m);
    const ScheduleProof proof = check_schedule(schedule);
    for (int rank = 0; rank < pp; ++rank) {
      const std::vector<int>& slots = schedule.slots_needed[rank];
      const int first_backward = static_cast<int>(std::ranges::count_if(
          schedule.ranks[rank].begin(),
          std::ranges::find(schedule.ranks[rank], Instruction::backward, &Instruction::kind),
          [](const Instruction& i) { return i.kind == Instruction::forward; }));
      // What is in flight when the first backward runs is never exceeded: from there on they alternate.
      EXPECT_EQ(proof.peak_in_flight[rank], first_backward);
      if (chunks == 1) {
        const int expected = kind == ScheduleKind::gpipe ? m : std::min(pp - rank, m);
        EXPECT_EQ(slots, std::vector<int>{expected});
      }
      if (kind == ScheduleKind::interleaved && chunks > 1 && m % pp == 0) {
        EXPECT_EQ(first_backward, std::min(m * chunks, 2 * (pp - 1 - rank) + (chunks - 1) * pp + 1));
      }
    }
  });
}

// As few slots as any assignment could do with: the most micro-batches of the chunk alive at once.
TEST(ScheduleCheck, NoFewerSlotsWouldDo) {
  for_each_small([](ScheduleKind kind, int pp, int chunks, int m) {
    const Schedule schedule = make_schedule(kind, pp, chunks, m);
    for (int rank = 0; rank < pp; ++rank) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        int alive = 0, most = 0;
        for (const Instruction& i : schedule.ranks[rank]) {
          if (i.chunk != chunk || !i.is_compute()) continue;
          alive += i.kind == Instruction::forward ? 1 : -1;
          most = std::max(most, alive);
        }
        EXPECT_EQ(schedule.slots_needed[rank][chunk], most);
      }
    }
  });
}

TEST(ScheduleCheck, NamesAMissingSend) {
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8);
  erase(schedule, 1, find(schedule, 1, Instruction::send_activation, 1));
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 1, instruction 6 (forward chunk 0 micro-batch 2 slot 2): the result of the "
      "forward chunk 0 micro-batch 1 slot 1 has not been sent");
  schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8);
  erase(schedule, 3, find(schedule, 3, Instruction::send_gradient, 7));
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 3, instruction 31 (update): the result of the backward chunk 0 micro-batch 7 "
      "slot 0 has not been sent");
}

TEST(ScheduleCheck, NamesAMissingReceive) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 3);
  erase(schedule, 1, find(schedule, 1, Instruction::receive_activation, 2));
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 1, instruction 4 (forward chunk 0 micro-batch 2 slot 2): its activation "
            "has not "
            "been received");
}

TEST(ScheduleCheck, NamesSwappedReceives) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 3, 1, 4);
  const int one = find(schedule, 1, Instruction::receive_activation, 1);
  const int two = find(schedule, 1, Instruction::receive_activation, 2);
  std::swap(schedule.ranks[1][one], schedule.ranks[1][two]);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 1, instruction 4 (forward chunk 0 micro-batch 1 slot 1): its activation "
            "has not "
            "been received");
}

// Every rank's list is right by itself; the two disagree about the order on the channel.
TEST(ScheduleCheck, NamesMessagesOutOfOrder) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 4);
  auto& list = schedule.ranks[0];
  ASSERT_EQ(list[2].kind, Instruction::forward);
  ASSERT_EQ(list[4].kind, Instruction::forward);
  std::swap_ranges(list.begin() + 2, list.begin() + 4, list.begin() + 4);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 1, instruction 2 (receive_activation chunk 0 micro-batch 1 slot 1) is "
            "message 1 "
            "of the activations of rank 0 chunk 0 to rank 1, but rank 0, instruction 3 (send_activation "
            "chunk 0 "
            "micro-batch 2 slot 2) sends micro-batch 2 there");
}

TEST(ScheduleCheck, NamesASlotTakenEarly) {
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8);
  for (Instruction& i : schedule.ranks[0]) {
    if (i.micro_batch == 3) i.slot = 1;  // micro-batch 1 has it until after this forward
  }
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 0, instruction 6 (forward chunk 0 micro-batch 3 slot 1): its slot still holds "
      "micro-batch 1");
  schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8);
  schedule.ranks[0][find(schedule, 0, Instruction::backward, 1)].slot = 3;
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 13 (backward chunk 0 micro-batch 1 slot 3): its "
            "micro-batch is in "
            "slot 1");
  schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 8);
  schedule.slots_needed[0][0] = 3;
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 6 (forward chunk 0 micro-batch 3 slot 3): expected a "
            "slot below "
            "3, which is slots_needed");
}

TEST(ScheduleCheck, NamesADeadlock) {
  // Rank 0 wants the first gradient before it sends the second activation, which rank 1 wants first.
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);
  schedule.ranks[0] = {{Instruction::forward, 0, 0, 0},
                       {Instruction::send_activation, 0, 0, 0},
                       {Instruction::receive_gradient, 0, 0, 0},
                       {Instruction::backward, 0, 0, 0},
                       {Instruction::forward, 0, 1, 0},
                       {Instruction::send_activation, 0, 1, 0},
                       {Instruction::receive_gradient, 0, 1, 0},
                       {Instruction::backward, 0, 1, 0},
                       {Instruction::update}};
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: deadlock: rank 0 waits at instruction 2 (receive_gradient chunk 0 "
            "micro-batch 0 slot "
            "0) for rank 1; rank 1 waits at instruction 2 (receive_activation chunk 0 micro-batch 1 slot 1) "
            "for rank "
            "0");
}

TEST(ScheduleCheck, NamesBackwardsOutOfOrder) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 1, 3);
  auto& list = schedule.ranks[0];
  std::swap(list[3], list[4]);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 3 (backward chunk 0 micro-batch 1 slot 1): expected "
            "micro-batch "
            "0: backwards run in the order of the micro-batches");
}

TEST(ScheduleCheck, NamesWhatIsMissingOrDouble) {
  const Schedule good = make_schedule(ScheduleKind::gpipe, 1, 1, 2);  // F0 F1 B0 B1 update
  Schedule schedule = good;
  erase(schedule, 0, 3);
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 0, instruction 3 (update): chunk 0 has not run backward of micro-batch 1");
  schedule = good;
  erase(schedule, 0, 0);
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 0, instruction 1 (backward chunk 0 micro-batch 0 slot 0): its forward has not "
      "run");
  schedule = good;
  schedule.ranks[0].insert(schedule.ranks[0].begin(), schedule.ranks[0][0]);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 1 (forward chunk 0 micro-batch 0 slot 0): happens twice");
  schedule = good;
  schedule.ranks[0].pop_back();
  EXPECT_EQ(refusal(schedule), "pipeline schedule: rank 0 has no update at its end");
  schedule = good;
  std::swap(schedule.ranks[0][3], schedule.ranks[0][4]);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 3 (update): expected update as the last instruction");
  schedule = good;
  schedule.ranks[0].insert(schedule.ranks[0].begin() + 1, {Instruction::send_activation, 0, 0, 0});
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 0, instruction 1 (send_activation chunk 0 micro-batch 0 slot 0): global "
            "stage 0 "
            "of 1 has no neighbour on that side");
}

TEST(ScheduleCheck, NamesWhatIsOutOfRange) {
  const Schedule good = make_schedule(ScheduleKind::gpipe, 1, 1, 2);  // F0 F1 B0 B1 update
  const std::string place = "pipeline schedule: rank 0, instruction 1 (forward ";
  for (const int chunk : {-1, 1}) {
    Schedule schedule = good;
    schedule.ranks[0][1].chunk = chunk;
    EXPECT_EQ(refusal(schedule),
              place + fmt::format("chunk {} micro-batch 1 slot 1): expected a chunk below 1", chunk));
  }
  for (const int micro_batch : {-1, 2}) {
    Schedule schedule = good;
    schedule.ranks[0][1].micro_batch = micro_batch;
    EXPECT_EQ(
        refusal(schedule),
        place + fmt::format("chunk 0 micro-batch {} slot 1): expected a micro-batch below 2", micro_batch));
  }
}

// Messages are made and read one at a time.
TEST(ScheduleCheck, NamesMessagesApartFromTheirPrograms) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);  // rank 0: F0 send F1 send ...
  auto& sender = schedule.ranks[0];
  std::swap(sender[0], sender[1]);
  EXPECT_EQ(
      refusal(schedule),
      "pipeline schedule: rank 0, instruction 0 (send_activation chunk 0 micro-batch 0 slot 0): expected "
      "directly after its forward");
  schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);  // rank 1: receive F0 receive F1 ...
  auto& receiver = schedule.ranks[1];
  std::swap(receiver[1], receiver[2]);
  EXPECT_EQ(refusal(schedule),
            "pipeline schedule: rank 1, instruction 1 (receive_activation chunk 0 micro-batch 1 slot 1): the "
            "message of the receive_activation chunk 0 micro-batch 0 slot 0 has not been read yet");
}

// One instruction removed, doubled, moved or given another slot: a schedule is accepted only if it still
// runs.
TEST(ScheduleCheck, RandomDamageIsFoundOrHarmless) {
  std::mt19937 random(3);
  int refused = 0;
  constexpr int kTrials = 3000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto kind = static_cast<ScheduleKind>(random() % 3);
    Schedule schedule =
        make_schedule(kind, 1 + static_cast<int>(random() % 4), kind == ScheduleKind::interleaved ? 2 : 1,
                      1 + static_cast<int>(random() % 6));
    auto& list = schedule.ranks[random() % schedule.ranks.size()];
    const auto from = static_cast<std::ptrdiff_t>(random() % list.size());
    Instruction moved = list[from];
    if (random() % 4 == 0) moved.slot = static_cast<int>(random() % 4);
    if (random() % 3 != 0) list.erase(list.begin() + from);
    if (random() % 3 != 0)
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(random() % (list.size() + 1)), moved);
    if (!refusal(schedule).empty()) {
      ++refused;
    } else {
      expect_runs_in_random_order(schedule, random);
    }
  }
  EXPECT_GT(refused, kTrials / 2);
}

}  // namespace
}  // namespace tessera
