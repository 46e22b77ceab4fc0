#include "tessera/pipeline/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

namespace {

constexpr std::array<std::string_view, 3> kScheduleNames{"gpipe", "1f1b", "interleaved"};
constexpr std::array<std::string_view, Instruction::kNumKinds> kInstructionNames{
    "forward",       "backward",         "send_activation", "receive_activation",
    "send_gradient", "receive_gradient", "update"};

struct Program {
  int chunk = 0;
  int micro_batch = 0;
};

// Every schedule is three things: the order of a rank's forwards, the order of its backwards, and how many
// forwards go first. After those, forwards and backwards alternate; the remaining backwards come last.
struct RankOrder {
  std::vector<Program> forwards;
  std::vector<Program> backwards;
  int num_warmup = 0;
};

// Interleaving takes the micro-batches in groups: a group passes through chunk 0, then through chunk 1, and
// so on. A group must be at least pp long, or rank 0 would ask for chunk 1 what has not come round yet; that
// is where other systems want micro-batches in multiples of pp. Here they are spread over as many groups as
// pp fits in, as evenly as can be, and the smaller groups go first. Multiples of pp give groups of pp.
std::vector<int> group_sizes(int num_stages, int num_micro_batches) {
  const int num_groups = std::max(1, num_micro_batches / num_stages);
  std::vector<int> sizes(static_cast<std::size_t>(num_groups), num_micro_batches / num_groups);
  const int longer = num_micro_batches % num_groups;
  for (int i = 0; i < longer; ++i) ++sizes[static_cast<std::size_t>(num_groups - 1 - i)];
  return sizes;
}

// How many forwards rank 0 .. pp - 1 runs before its first backward, if there are that many.
int num_warmup(const Schedule& schedule, int rank, int longest_group) {
  const int ranks_after = schedule.num_stages - 1 - rank;
  if (schedule.kind == ScheduleKind::gpipe) return schedule.num_micro_batches;
  // The first micro-batch goes down to the last rank and its gradient comes back.
  if (schedule.num_chunks == 1) return ranks_after;
  // All chunks but the last must be passed first. Twice the distance, because meanwhile this rank has work:
  // it forwards the next chunk's micro-batches where 1F1B would wait.
  return 2 * ranks_after + (schedule.num_chunks - 1) * longest_group;
}

RankOrder rank_order(const Schedule& schedule, int rank) {
  // Without chunks the grouping says nothing; it gives 0, 1, 2, ...
  const std::vector<int> groups = group_sizes(schedule.num_stages, schedule.num_micro_batches);
  RankOrder order;
  int first = 0;
  for (const int size : groups) {
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      for (int i = first; i < first + size; ++i) {
        order.forwards.push_back({chunk, i});
        order.backwards.push_back({schedule.num_chunks - 1 - chunk, i});
      }
    }
    first += size;
  }
  order.num_warmup =
      std::min(num_warmup(schedule, rank, std::ranges::max(groups)), static_cast<int>(order.forwards.size()));
  return order;
}

// Gives each micro-batch in flight the lowest free slot.
class SlotPool {
 public:
  explicit SlotPool(int num_micro_batches) : slot_of_(static_cast<std::size_t>(num_micro_batches), -1) {}

  int take(int micro_batch) {
    if (free_.empty()) free_.push(num_slots_++);
    const int slot = free_.top();
    free_.pop();
    return slot_of_[static_cast<std::size_t>(micro_batch)] = slot;
  }
  int slot_of(int micro_batch) const { return slot_of_[static_cast<std::size_t>(micro_batch)]; }
  void give_back(int micro_batch) { free_.push(slot_of(micro_batch)); }
  int num_slots() const { return num_slots_; }

 private:
  std::vector<int> slot_of_;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
  int num_slots_ = 0;
};

// Puts the messages around each program of one rank.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, int rank)
      : schedule_(schedule),
        rank_(rank),
        slots_(static_cast<std::size_t>(schedule.num_chunks), SlotPool(schedule.num_micro_batches)) {
    instructions_.reserve(static_cast<std::size_t>(6 * schedule.num_chunks * schedule.num_micro_batches + 1));
  }

  void forward(Program p) {
    const int slot = pool(p).take(p.micro_batch);
    if (!schedule_.is_first(rank_, p.chunk)) push(Instruction::receive_activation, p, slot);
    push(Instruction::forward, p, slot);
    if (!schedule_.is_last(rank_, p.chunk)) push(Instruction::send_activation, p, slot);
  }

  void backward(Program p) {
    const int slot = pool(p).slot_of(p.micro_batch);
    if (!schedule_.is_last(rank_, p.chunk)) push(Instruction::receive_gradient, p, slot);
    push(Instruction::backward, p, slot);
    if (!schedule_.is_first(rank_, p.chunk)) push(Instruction::send_gradient, p, slot);
    pool(p).give_back(p.micro_batch);
  }

  std::vector<Instruction> finish() {
    instructions_.push_back({.kind = Instruction::update});
    return std::move(instructions_);
  }

  std::vector<int> slots_needed() const {
    std::vector<int> needed;
    for (const SlotPool& pool : slots_) needed.push_back(pool.num_slots());
    return needed;
  }

 private:
  SlotPool& pool(Program p) { return slots_[static_cast<std::size_t>(p.chunk)]; }
  void push(Instruction::Kind kind, Program p, int slot) {
    instructions_.push_back({.kind = kind, .chunk = p.chunk, .micro_batch = p.micro_batch, .slot = slot});
  }

  const Schedule& schedule_;
  int rank_;
  std::vector<SlotPool> slots_;  // by chunk
  std::vector<Instruction> instructions_;
};

}  // namespace

std::string_view schedule_name(ScheduleKind kind) {
  return kScheduleNames[static_cast<std::size_t>(kind)];
}

ScheduleKind parse_schedule_kind(std::string_view name) {
  const auto found = std::ranges::find(kScheduleNames, name);
  TS_CHECK(found != kScheduleNames.end(),
           "pipeline.schedule: found '{}', expected gpipe, 1f1b or interleaved", name);
  return static_cast<ScheduleKind>(found - kScheduleNames.begin());
}

std::string_view instruction_name(Instruction::Kind kind) {
  return kInstructionNames[kind];
}

std::string instruction_text(const Instruction& instruction) {
  if (instruction.kind == Instruction::update) return "update";
  return fmt::format("{} chunk {} micro-batch {} slot {}", instruction_name(instruction.kind),
                     instruction.chunk, instruction.micro_batch, instruction.slot);
}

int peer_rank(const Schedule& schedule, int rank, const Instruction& message) {
  const bool forwards =
      message.kind == Instruction::send_activation || message.kind == Instruction::receive_gradient;
  return (rank + (forwards ? 1 : schedule.num_stages - 1)) % schedule.num_stages;
}

Schedule make_schedule(ScheduleKind kind, int num_stages, int num_chunks, int num_micro_batches) {
  TS_CHECK(num_stages >= 1, "parallel.pp: found {}, expected at least 1", num_stages);
  TS_CHECK(num_chunks >= 1, "pipeline.chunks: found {}, expected at least 1", num_chunks);
  TS_CHECK(num_micro_batches >= 1, "pipeline.schedule {}: found {} micro-batches, expected at least 1",
           schedule_name(kind), num_micro_batches);
  // Enough for thousands of micro-batches on hundreds of stages, and still a few seconds' work.
  constexpr std::int64_t kMostPrograms = 8'000'000;
  TS_CHECK(
      std::int64_t{num_micro_batches} * num_chunks * num_stages <= kMostPrograms,
      "pipeline.schedule {}: found {} micro-batches (train.global_batch / train.micro_batch / parallel.dp) "
      "times {} chunks times {} stages, expected at most {}",
      schedule_name(kind), num_micro_batches, num_chunks, num_stages, kMostPrograms);
  TS_CHECK(
      num_chunks == 1 || kind == ScheduleKind::interleaved,
      "pipeline.chunks: found {} with pipeline.schedule {}, expected 1; only interleaved has several chunks",
      num_chunks, schedule_name(kind));
  Schedule schedule{.kind = kind,
                    .num_stages = num_stages,
                    .num_chunks = num_chunks,
                    .num_micro_batches = num_micro_batches};
  for (int rank = 0; rank < num_stages; ++rank) {
    const RankOrder order = rank_order(schedule, rank);
    RankWriter writer(schedule, rank);
    const auto warmup = static_cast<std::size_t>(order.num_warmup);
    for (std::size_t i = 0; i < warmup; ++i) writer.forward(order.forwards[i]);
    for (std::size_t i = 0; i < order.backwards.size(); ++i) {
      if (warmup + i < order.forwards.size()) writer.forward(order.forwards[warmup + i]);
      writer.backward(order.backwards[i]);
    }
    schedule.ranks.push_back(writer.finish());
    schedule.slots_needed.push_back(writer.slots_needed());
  }
  return schedule;
}

}  // namespace tessera
