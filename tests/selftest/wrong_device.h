// The CPU with a mistake: for tests of what the self test finds.
#pragma once

#include <functional>

#include "runtime/proxy_device.h"

namespace tessera {

inline std::unique_ptr<Device> make_cpu() {
  return make_cpu_device(2);
}

// `after` is what it does to a call's operands when the kernel has run. With `after_pair` it fuses any two
// nodes, and does that to their operands instead; then it also starts the sums of a norm's gradient.
class WrongDevice final : public ProxyDevice {
 public:
  using Mistake = std::function<void(const KernelCall&)>;
  using PairMistake = std::function<void(const KernelCall& first, const KernelCall& second)>;
  explicit WrongDevice(Mistake after) : after_(std::move(after)) {}
  explicit WrongDevice(PairMistake after_pair) : after_pair_(std::move(after_pair)) {}

  void run(Op op, const KernelCall& call) override {
    ProxyDevice::run(op, call);
    if (after_) after_(call);
  }
  bool fuses(const Graph&, const Node&, const Node&) const override { return after_pair_ != nullptr; }
  void run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second) override {
    if (first.starts_sums) {
      for (const TensorView& sum : first.outputs.subspan(1)) clear(sum);
    }
    ProxyDevice::run(first_op, first);
    ProxyDevice::run(second_op, second);
    after_pair_(first, second);
  }
  bool can_start_sums(Op op) const override {
    return after_pair_ ? op == Op::layer_norm_grad : ProxyDevice::can_start_sums(op);
  }

 private:
  Mistake after_;
  PairMistake after_pair_;
};

}  // namespace tessera
