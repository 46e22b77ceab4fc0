// The CPU with a mistake: for tests of what the self test finds.
#pragma once

#include <functional>

#include "tessera/backend/cpu/cpu_device.h"

namespace tessera {

inline std::unique_ptr<Device> make_cpu() {
  return make_cpu_device(2);
}

// `after` is what it does to a call's operands when the kernel has run. With `after_pair` it fuses any two
// nodes, and does that to their operands instead; then it also starts the sums of a norm's gradient.
class WrongDevice final : public Device {
 public:
  using Mistake = std::function<void(const KernelCall&)>;
  using PairMistake = std::function<void(const KernelCall& first, const KernelCall& second)>;
  explicit WrongDevice(Mistake after) : after_(std::move(after)) {}
  explicit WrongDevice(PairMistake after_pair) : after_pair_(std::move(after_pair)) {}

  std::string_view name() const override { return "wrong"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    return cpu_->allocate(num_bytes);
  }
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    return cpu_->workspace_bytes(graph, node);
  }
  void run(Op op, const KernelCall& call) override {
    cpu_->run(op, call);
    if (after_) after_(call);
  }
  bool fuses(const Graph&, const Node&, const Node&) const override { return after_pair_ != nullptr; }
  void run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second) override {
    if (first.starts_sums) {
      for (const TensorView& sum : first.outputs.subspan(1)) cpu_->clear(sum);
    }
    cpu_->run(first_op, first);
    cpu_->run(second_op, second);
    after_pair_(first, second);
  }
  bool can_start_sums(Op op) const override {
    return after_pair_ ? op == Op::layer_norm_grad : cpu_->can_start_sums(op);
  }
  void clear(const TensorView& tensor) override { cpu_->clear(tensor); }
  void upload(std::byte* to, std::span<const std::byte> from) override { cpu_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { cpu_->download(to, from); }
  double peak_flops() override { return 0; }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu();
  Mistake after_;
  PairMistake after_pair_;
};

}  // namespace tessera
