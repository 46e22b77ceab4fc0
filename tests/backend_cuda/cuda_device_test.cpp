// What can be said of the CUDA device wherever the tests run: it is made, or says why not.
#include "tessera/backend/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera {
namespace {

TEST(CudaDeviceTest, IsMadeOrSaysWhyNot) {
  try {
    const std::unique_ptr<Device> device = make_cuda_device(0, make_cpu_device(1));
    EXPECT_EQ(device->name(), "cuda");
    EXPECT_FALSE(device->host_can_read());
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_TRUE(message.starts_with("device: cuda, but ")) << message;
  }
}

// It gathers some nodes, to run them together. A sanitizer sees whether it looks at a call that is gone.
TEST(CudaDeviceTest, RunsWhatItHasGatheredBeforeItsMemoryGoes) {
  if (num_cuda_gpus() == 0) GTEST_SKIP() << "no GPU";
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

TEST(CudaDeviceTest, RefusesAGpuThatIsNotThere) {
  EXPECT_THROW(make_cuda_device(1000, make_cpu_device(1)), Error);
}

}  // namespace
}  // namespace tessera
