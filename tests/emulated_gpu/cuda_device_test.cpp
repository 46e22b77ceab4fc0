// The CUDA device on an emulated GPU, where the sanitizers watch what it reads.
#include "tessera/backend/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera {
namespace {

// It gathers some nodes, to run them together. A sanitizer sees whether it looks at a call that is gone.
TEST(CudaDeviceTest, RunsWhatItHasGatheredBeforeItsMemoryGoes) {
  struct Operands {
    std::vector<TensorView> inputs, outputs;
    Attrs attrs = SumSquaresAttrs{};
  };
  const std::unique_ptr<Device> device = make_cuda_device(0, make_cpu_device(1));
  std::unique_ptr<DeviceMemory> memory = device->allocate(1024);
  auto operands = std::make_unique<Operands>();
  operands->inputs = {{memory->data(), DType::f32, Shape{64}}};
  operands->outputs = {{memory->data() + 256, DType::f32, Shape{}}};
  device->run(Op::sum_squares,
              {operands->inputs, operands->outputs, &operands->attrs, {memory->data() + 512, 512}});
  memory.reset();
  operands.reset();
  device->synchronize();
}

}  // namespace
}  // namespace tessera
