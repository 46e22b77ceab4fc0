#include "tessera/pipeline/rank_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

namespace {

using KindSet = unsigned;  // of Instruction::Kind: a bit each
constexpr KindSet bit(Instruction::Kind kind) {
  return static_cast<KindSet>(1u << kind);
}

class RankCheck {
 public:
  RankCheck(const Schedule& schedule, int rank)
      : schedule_(schedule),
        rank_(rank),
        list_(schedule.ranks[rank]),
        flights_(static_cast<std::size_t>(schedule.num_chunks * schedule.num_micro_batches)),
        next_backward_(static_cast<std::size_t>(schedule.num_chunks), 0) {
    for (const int num_slots : schedule.slots_needed[rank]) {
      holders_.emplace_back(static_cast<std::size_t>(std::max(0, num_slots)), -1);
    }
  }

  int run() {
    for (index_ = 0; index_ < static_cast<int>(list_.size()); ++index_) {
      const Instruction& i = list_[index_];
      if (i.kind == Instruction::update) {
        if (index_ + 1 != static_cast<int>(list_.size())) refuse("expected update as the last instruction");
        check_complete();
        return peak_;
      }
      check_range(i);
      enter(i);
      if (i.is_compute()) compute(i);
      if (i.is_receive()) receive(i);
      if (i.is_send()) send(i);
      leave(i);
    }
    fail("pipeline schedule: rank {} has no update at its end", rank_);
  }

 private:
  // What one micro-batch has done in one chunk.
  struct Flight {
    KindSet done = 0;
    int slot = -1;
  };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("pipeline schedule: {}: {}", instruction_place(schedule_, rank_, index_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  Flight& flight(const Instruction& i) {
    return flights_[static_cast<std::size_t>(i.chunk * schedule_.num_micro_batches + i.micro_batch)];
  }

  KindSet expected(int chunk) const {
    KindSet set = bit(Instruction::forward) | bit(Instruction::backward);
    if (!schedule_.is_first(rank_, chunk))
      set |= bit(Instruction::receive_activation) | bit(Instruction::send_gradient);
    if (!schedule_.is_last(rank_, chunk))
      set |= bit(Instruction::send_activation) | bit(Instruction::receive_gradient);
    return set;
  }

  void check_range(const Instruction& i) const {
    if (i.chunk < 0 || i.chunk >= schedule_.num_chunks)
      refuse("expected a chunk below {}", schedule_.num_chunks);
    if (i.micro_batch < 0 || i.micro_batch >= schedule_.num_micro_batches)
      refuse("expected a micro-batch below {}", schedule_.num_micro_batches);
    const auto num_slots = static_cast<int>(holders_[i.chunk].size());
    if (i.slot < 0 || i.slot >= num_slots)
      refuse("expected a slot below {}, which is slots_needed", num_slots);
    if ((expected(i.chunk) & bit(i.kind)) == 0)
      refuse("global stage {} of {} has no neighbour on that side", schedule_.global_stage(rank_, i.chunk),
             schedule_.num_global_stages());
  }

  // The first instruction of a micro-batch takes its slot; all others must name the same.
  void enter(const Instruction& i) {
    Flight& f = flight(i);
    if ((f.done & bit(i.kind)) != 0) refuse("happens twice");
    if (f.done == 0) {
      const int holder = holders_[i.chunk][i.slot];
      if (holder >= 0) refuse("its slot still holds micro-batch {}", holder);
      f.slot = i.slot;
      holders_[i.chunk][i.slot] = i.micro_batch;
      peak_ = std::max(peak_, ++in_flight_);
    }
    if (f.slot != i.slot) refuse("its micro-batch is in slot {}", f.slot);
  }

  void leave(const Instruction& i) {
    Flight& f = flight(i);
    f.done |= bit(i.kind);
    if (f.done != expected(i.chunk)) return;
    holders_[i.chunk][i.slot] = -1;
    --in_flight_;
  }

  void compute(const Instruction& i) {
    const bool is_forward = i.kind == Instruction::forward;
    const Instruction::Kind message =
        is_forward ? Instruction::receive_activation : Instruction::receive_gradient;
    check_nothing_unsent();
    const KindSet done = flight(i).done;
    if ((expected(i.chunk) & ~done & bit(message)) != 0)
      refuse("its {} has not been received", is_forward ? "activation" : "gradient");
    const bool reads_it = received_ && received_->kind == message && received_->chunk == i.chunk &&
                          received_->micro_batch == i.micro_batch;
    if (received_ && !reads_it)
      refuse("runs between the {} and the program that reads it", instruction_text(*received_));
    received_.reset();
    if (!is_forward) {
      if ((done & bit(Instruction::forward)) == 0) refuse("its forward has not run");
      int& next = next_backward_[i.chunk];
      if (i.micro_batch != next)
        refuse("expected micro-batch {}: backwards run in the order of the micro-batches", next);
      ++next;
    }
    const Instruction::Kind result = is_forward ? Instruction::send_activation : Instruction::send_gradient;
    if ((expected(i.chunk) & bit(result)) != 0) unsent_ = i;
  }

  void receive(const Instruction& i) {
    if (received_) refuse("the message of the {} has not been read yet", instruction_text(*received_));
    received_ = i;
  }

  void send(const Instruction& i) {
    const Instruction::Kind maker =
        i.kind == Instruction::send_activation ? Instruction::forward : Instruction::backward;
    if (!unsent_ || unsent_->kind != maker || unsent_->chunk != i.chunk ||
        unsent_->micro_batch != i.micro_batch)
      refuse("expected directly after its {}", instruction_name(maker));
    unsent_.reset();
  }

  void check_nothing_unsent() const {
    if (unsent_) refuse("the result of the {} has not been sent", instruction_text(*unsent_));
  }

  void check_complete() const {
    check_nothing_unsent();
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      for (int m = 0; m < schedule_.num_micro_batches; ++m) {
        const KindSet done = flights_[static_cast<std::size_t>(chunk * schedule_.num_micro_batches + m)].done;
        for (const auto kind : {Instruction::forward, Instruction::backward}) {
          if ((done & bit(kind)) == 0)
            refuse("chunk {} has not run {} of micro-batch {}", chunk, instruction_name(kind), m);
        }
      }
    }
  }

  const Schedule& schedule_;
  int rank_;
  const std::vector<Instruction>& list_;
  int index_ = 0;
  std::vector<Flight> flights_;            // [chunk][micro-batch]
  std::vector<std::vector<int>> holders_;  // [chunk][slot]: the micro-batch in it, or -1
  std::vector<int> next_backward_;         // by chunk
  std::optional<Instruction> received_;    // a message no program has read yet
  std::optional<Instruction> unsent_;      // a program whose result waits to be sent
  int in_flight_ = 0;
  int peak_ = 0;
};

}  // namespace

int check_rank(const Schedule& schedule, int rank) {
  return RankCheck(schedule, rank).run();
}

std::string instruction_place(const Schedule& schedule, int rank, int index) {
  return fmt::format("rank {}, instruction {} ({})", rank, index,
                     instruction_text(schedule.ranks[rank][index]));
}

}  // namespace tessera
