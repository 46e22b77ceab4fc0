// StageRunner: carries out one rank's instruction list: runs its programs on micro-batches and slots, sends
// what they make to the neighbouring stages and receives what they need.
#pragma once

#include <functional>

#include "tessera/partition/stages.h"
#include "tessera/pipeline/schedule.h"
#include "tessera/runtime/executor.h"

namespace tessera {

class StageRunner {
 public:
  // `ranks` is null on one rank. All outlive the runner.
  StageRunner(Executor& executor, std::vector<StageMessages> messages, Schedule schedule,
              const RankGroups* ranks);

  // Called before a forward with its instruction: the host writes the micro-batch's inputs.
  using FillInputs = std::function<void(const Instruction&)>;
  // Called after the program that makes the loss, with its instruction.
  using ReadLoss = std::function<void(const Instruction&)>;

  // All micro-batches forward and backward; the update is the caller's. If that comes next, the reduction of
  // gradients begins already here, and accumulators are not what backward left there.
  void run(const FillInputs& fill, const ReadLoss& read_loss, bool update_follows, OpTimes* times = nullptr);
  // Forward alone, micro-batch after micro-batch, in slot 0.
  void run_forward(const FillInputs& fill, const ReadLoss& read_loss);

  const Schedule& schedule() const { return schedule_; }
  int pp_rank() const { return pp_rank_; }

 private:
  void send(const Instruction& instruction, const std::vector<ValueId>& values);
  void receive(const Instruction& instruction, const std::vector<ValueId>& values);
  void carry_out(const Instruction& instruction, const FillInputs& fill, const ReadLoss& read_loss,
                 bool update_follows, OpTimes* times);

  Executor& executor_;
  const std::vector<StageMessages> messages_;
  const Schedule schedule_;
  const RankGroups* ranks_;
  int pp_rank_ = 0;
};

}  // namespace tessera
