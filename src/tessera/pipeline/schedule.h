// Schedule: what each pipeline rank does in one step, as a list of instructions: which program runs on which
// micro-batch and in which slot, and what is sent. Made by make_schedule() from four numbers, proved by
// check_schedule(), timed and printed by schedule_timing.h and timeline.h, and executed by the trainer.
//
// The model is cut into pp * chunks global stages. Rank r holds global stages r, pp + r, 2 pp + r, ...: its
// chunks 0, 1, 2, ... So neighbouring stages lie on neighbouring ranks; after the last rank comes rank 0.
//
// Sends are buffered: they return at once. Receives block. A receive stands directly before the program that
// reads the message and a send directly after the program that made it: beside what the carrier of messages
// buffers, a rank holds one message at a time, and may hold it in memory that its programs share.
//
// The backward programs of a chunk run in the order of the micro-batches 0, 1, 2, ... under every schedule.
// Gradients are added up in that order, hence to the same bits, whatever the schedule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class ScheduleKind : std::uint8_t {
  gpipe,        // all forwards, then all backwards: a slot for every micro-batch
  one_f_one_b,  // a backward as soon as there is one: at most pp - rank slots
  interleaved,  // one_f_one_b over several chunks per rank: the bubble divided by the chunks
};
std::string_view schedule_name(ScheduleKind kind);        // as in configs: "gpipe", "1f1b", "interleaved"
ScheduleKind parse_schedule_kind(std::string_view name);  // throws an Error that names pipeline.schedule

struct Instruction {
  enum Kind : std::uint8_t {
    forward,
    backward,
    send_activation,     // of this forward, to the next global stage
    receive_activation,  // for this forward, from the previous global stage
    send_gradient,       // of this backward, to the previous global stage
    receive_gradient,    // for this backward, from the next global stage
    update,              // once, at the end; has no chunk, micro-batch or slot
  };
  static constexpr int kNumKinds = 7;

  Kind kind = update;
  int chunk = -1;  // on this rank: 0 .. num_chunks - 1
  int micro_batch = -1;
  int slot = -1;  // of this chunk; held from the micro-batch's first instruction to its last

  bool is_send() const { return kind == send_activation || kind == send_gradient; }
  bool is_receive() const { return kind == receive_activation || kind == receive_gradient; }
  bool is_message() const { return is_send() || is_receive(); }
  bool is_compute() const { return kind == forward || kind == backward; }
  bool operator==(const Instruction&) const = default;
};
std::string_view instruction_name(Instruction::Kind kind);  // "receive_gradient"
// "receive_gradient chunk 0 micro-batch 3 slot 1"
std::string instruction_text(const Instruction& instruction);

struct Schedule {
  ScheduleKind kind = ScheduleKind::gpipe;
  int num_stages = 1;  // pp: the ranks of the pipeline
  int num_chunks = 1;  // per rank; 1 unless interleaved
  int num_micro_batches = 1;
  std::vector<std::vector<Instruction>> ranks;
  std::vector<std::vector<int>> slots_needed;  // [rank][chunk]: memory planning makes as many

  int num_global_stages() const { return num_stages * num_chunks; }
  int global_stage(int rank, int chunk) const { return chunk * num_stages + rank; }
  bool is_first(int rank, int chunk) const { return global_stage(rank, chunk) == 0; }
  bool is_last(int rank, int chunk) const { return global_stage(rank, chunk) == num_global_stages() - 1; }
  bool operator==(const Schedule&) const = default;
};

// Any number of micro-batches goes with any kind, also fewer than stages. `chunks` above 1 is refused unless
// the kind is interleaved; interleaved with one chunk is 1F1B.
//
// One rank with several chunks sends to itself, with the same instructions; other programs may run between
// the send and the receive, so the carrier buffers these messages too. One rank with one chunk sends nothing.
Schedule make_schedule(ScheduleKind kind, int num_stages, int num_chunks, int num_micro_batches);

// The rank at the other end of a message of `rank`.
int peer_rank(const Schedule& schedule, int rank, const Instruction& message);

}  // namespace tessera
