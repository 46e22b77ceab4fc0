// That a pipeline reserves room for the messages that it sends: a device may have to allocate it.
#include <gtest/gtest.h>

#include <map>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/models/llama.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

// The CPU, which notes what one rank reserves and sends, by receiver and bytes.
class MessageDevice final : public Device {
 public:
  using Counts = std::map<std::pair<int, std::int64_t>, int>;
  Counts reserved, sent;

  std::string_view name() const override { return "messages"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    return cpu_->allocate(num_bytes);
  }
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    return cpu_->workspace_bytes(graph, node);
  }
  void run(Op op, const KernelCall& call) override { cpu_->run(op, call); }
  void clear(const TensorView& tensor) override { cpu_->clear(tensor); }
  void upload(std::byte* to, std::span<const std::byte> from) override { cpu_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { cpu_->download(to, from); }
  void reserve_messages(const RankGroups&, int to, std::int64_t bytes, int count) override {
    reserved[{to, bytes}] = count;
  }
  void send(const TensorView& from, const RankGroups& ranks, int to, int tag) override {
    ++sent[{to, from.num_bytes()}];
    Device::send(from, ranks, to, tag);
  }
  double peak_flops() override { return 0; }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device(1);
};

TEST(StageMessagesTest, WhatIsSentIsReservedBefore) {
  const auto model = make_llama({.vocab_size = 101,
                                 .hidden_size = 24,
                                 .layers = 4,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 4,
                                 .ffn_size = 100,
                                 .max_positions = 64});
  constexpr std::int64_t kSequences = 5, kSeqLen = 12, kBytes = kSeqLen * 24 * 4;
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
