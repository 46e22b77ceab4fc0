// That a pipeline reserves room for the messages that it sends: a device may have to allocate it.
#include <gtest/gtest.h>

#include <map>

#include "plan/small_models.h"
#include "runtime/proxy_device.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

// The CPU, which notes what one rank reserves and sends, by receiver and bytes.
class MessageDevice final : public ProxyDevice {
 public:
  using Counts = std::map<std::pair<int, std::int64_t>, int>;
  Counts reserved, sent;

  void reserve_messages(const RankGroups&, int to, std::int64_t bytes, int count) override {
    reserved[{to, bytes}] = count;
  }
  void send(const TensorView& from, const RankGroups& ranks, int to, int tag) override {
    ++sent[{to, from.num_bytes()}];
    Device::send(from, ranks, to, tag);
  }
};

TEST(StageMessagesTest, WhatIsSentIsReservedBefore) {
  const auto model = small_llama();
  constexpr std::int64_t kSequences = 5, kSeqLen = 12, kBytes = kSeqLen * 32 * 4;
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    Layout layout;
    layout.mesh = {2, 1, 1};
    layout.schedule = kind;
    layout.num_micro_batches = kSequences;
    run_local_ranks(2, [&](Communicator& world) {
      MessageDevice device;
      TrainingStep step(*model, {.shape = {1, kSeqLen}}, layout, 1, device, &world);
      initialize_weights(step.weights(), step.parameters(), 3);
      // Activations of rank 0 and gradients of rank 1: each as many as rank 0 has slots.
      const int slots = kind == ScheduleKind::gpipe ? kSequences : 2, other = 1 - world.rank();
      const MessageDevice::Counts room{{{other, kBytes}, slots}};
      EXPECT_EQ(device.reserved, room);
      const std::vector<std::int32_t> ids(kSequences * kSeqLen, 7);
      step.run(ids, ids, 0, 1e-2);
      EXPECT_EQ(device.sent, (MessageDevice::Counts{{{other, kBytes}, kSequences}}));
    });
  }
}

}  // namespace
}  // namespace tessera
