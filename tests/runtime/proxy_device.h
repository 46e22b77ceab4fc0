// ProxyDevice: the CPU behind a device of a test's own, which overrides what it watches or spoils.
#pragma once

#include "tessera/backend/cpu/cpu_device.h"

namespace tessera {

class ProxyDevice : public Device {
 public:
  std::string_view name() const override { return "proxy"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    return cpu_->allocate(num_bytes);
  }
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    return cpu_->workspace_bytes(graph, node);
  }
  void run(Op op, const KernelCall& call) override { cpu_->run(op, call); }
  bool can_start_sums(Op op) const override { return cpu_->can_start_sums(op); }
  void clear(const TensorView& tensor) override { cpu_->clear(tensor); }
  void upload(std::byte* to, std::span<const std::byte> from) override { cpu_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { cpu_->download(to, from); }
  double peak_flops() override { return 0; }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device(2);
};

}  // namespace tessera
