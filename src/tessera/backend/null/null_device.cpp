#include "tessera/backend/null/null_device.h"

#include "tessera/ops/cross_entropy.h"

namespace tessera {
namespace {

class NullMemory final : public DeviceMemory {
 public:
  std::byte* data() override { return nullptr; }
};

class NullDevice final : public Device {
 public:
  std::string_view name() const override { return "null"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t) override { return std::make_unique<NullMemory>(); }

  // Only what every device needs: the loss's chunk of logits. A real device adds its own scratch.
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    if (node.op != Op::linear_cross_entropy && node.op != Op::linear_cross_entropy_grad) return 0;
    const std::int64_t rows = node.attrs.as<LinearCrossEntropyAttrs>().chunk_rows;
    const ValueType& weight = graph.type(node.inputs[1]);
    return rows * weight.shape[0] * dtype_bytes(accumulate_dtype(weight.dtype));
  }

  void run(Op, const KernelCall&) override {}
  void clear(const TensorView&) override {}
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  double peak_flops() override { return 0; }
};

}  // namespace

std::unique_ptr<Device> make_null_device() {
  return std::make_unique<NullDevice>();
}

}  // namespace tessera
