// Device: what runs a plan's nodes: memory, copies, kernels. Implemented by backend/cpu, backend/cuda
// and backend/null; used by the Executor, which knows no op by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tessera/base/tensor_view.h"
#include "tessera/graph/graph.h"
#include "tessera/runtime/rank_groups.h"

namespace tessera {

// One node, ready to run: where its operands lie. Sizes come from the views.
struct KernelCall {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attrs* attrs = nullptr;
  std::span<std::byte> workspace;     // as many bytes as Device::workspace_bytes asked for
  const RankGroups* ranks = nullptr;  // null: a run on one rank
};

// Memory owned by a device; freed with the object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Zeroed, aligned to 256 bytes or more.
  virtual std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) = 0;
  // Scratch that the kernel of `node` needs while it runs; planned into the arena.
  virtual std::int64_t workspace_bytes(const Graph& graph, const Node& node) const = 0;
  virtual void run(Op op, const KernelCall& call) = 0;
  // Copies between host memory and this device; complete on return.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual double peak_flops() = 0;  // measured once; 0 if unknown
  // Whether the host reads and writes this device's memory as its own. Where not: upload and download.
  virtual bool host_can_read() const { return true; }
};

}  // namespace tessera
