#include "tessera/train/stage_runner.h"

#include <utility>

#include "tessera/pipeline/channel.h"
#include "tessera/train/message_room.h"

namespace tessera {

StageRunner::StageRunner(Executor& executor, std::vector<StageMessages> messages, Schedule schedule,
                         const RankGroups* ranks)
    : executor_(executor),
      messages_(std::move(messages)),
      schedule_(std::move(schedule)),
      ranks_(ranks),
      pp_rank_(ranks ? ranks->at().pp : 0) {
  if (ranks == nullptr) return;
  // Now, so that no step allocates.
  for (const MessageRoom& room : message_rooms(schedule_, pp_rank_, messages_, executor_.graph()))
    executor_.device().reserve_messages(*ranks, room.to, room.bytes, room.count);
}

void StageRunner::send(const Instruction& instruction, const std::vector<ValueId>& values) {
  const int tag = channel_index(schedule_, pp_rank_, instruction),
            to = peer_rank(schedule_, pp_rank_, instruction);
  for (ValueId v : values) {
    executor_.device().send(executor_.view(v, instruction.slot), *ranks_, to, tag);
  }
}

void StageRunner::receive(const Instruction& instruction, const std::vector<ValueId>& values) {
  const int tag = channel_index(schedule_, pp_rank_, instruction),
            from = peer_rank(schedule_, pp_rank_, instruction);
  for (ValueId v : values) {
    executor_.device().receive(executor_.view(v, instruction.slot), *ranks_, from, tag);
  }
}

void StageRunner::carry_out(const Instruction& instruction, const FillInputs& fill, const ReadLoss& read_loss,
                            bool update_follows, OpTimes* times) {
  const bool first = instruction.micro_batch == 0;
  const bool last = instruction.micro_batch == schedule_.num_micro_batches - 1;
  switch (instruction.kind) {
    case Instruction::forward:
      fill(instruction);
      executor_.run(Phase::forward, {.slot = instruction.slot, .chunk = instruction.chunk, .times = times});
      return;
    case Instruction::backward:
      executor_.run(Phase::backward,
                    {instruction.slot, instruction.chunk, first, last && update_follows, times});
      if (schedule_.is_last(pp_rank_, instruction.chunk)) read_loss(instruction);
      return;
    case Instruction::update:
      return;
    default:
      break;
  }
  const StageMessages& messages = messages_[static_cast<std::size_t>(instruction.chunk)];
  switch (instruction.kind) {
    case Instruction::send_activation:
      return send(instruction, messages.send_activation);
    case Instruction::receive_activation:
      return receive(instruction, messages.receive_activation);
    case Instruction::send_gradient:
      return send(instruction, messages.send_gradient);
    default:
      return receive(instruction, messages.receive_gradient);
  }
}

void StageRunner::run(const FillInputs& fill, const ReadLoss& read_loss, bool update_follows,
                      OpTimes* times) {
  for (const Instruction& instruction : schedule_.ranks[static_cast<std::size_t>(pp_rank_)]) {
    carry_out(instruction, fill, read_loss, update_follows, times);
  }
}

void StageRunner::run_forward(const FillInputs& fill, const ReadLoss& read_loss) {
  for (int micro_batch = 0; micro_batch < schedule_.num_micro_batches; ++micro_batch) {
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      const StageMessages& messages = messages_[static_cast<std::size_t>(chunk)];
      const auto instruction = [&](Instruction::Kind kind) {
        return Instruction{kind, chunk, micro_batch, 0};
      };
      if (!schedule_.is_first(pp_rank_, chunk)) {
        receive(instruction(Instruction::receive_activation), messages.receive_activation);
      }
      fill(instruction(Instruction::forward));
      executor_.run(Phase::forward, {.chunk = chunk});
      if (schedule_.is_last(pp_rank_, chunk)) {
        read_loss(instruction(Instruction::forward));
      } else {
        send(instruction(Instruction::send_activation), messages.send_activation);
      }
    }
  }
}

}  // namespace tessera
