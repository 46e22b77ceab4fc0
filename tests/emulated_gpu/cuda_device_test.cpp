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

// A stream that goes on noting, or the sums that it was to note, would fail whatever comes next.
TEST(CudaDeviceTest, IsAsBeforeWhenWorkThatItNotesHasFailed) {
  const std::unique_ptr<Device> device = make_cuda_device(0, make_cpu_device(1));
  const std::unique_ptr<DeviceMemory> memory = device->allocate(1024);
  const TensorView ones{memory->data(), DType::f32, Shape{64}},
      sum{memory->data() + 256, DType::f32, Shape{}};
  const std::vector<float> values(64, 1.0f);
  device->upload(memory->data(), std::as_bytes(std::span(values)));
  {
    const std::vector<TensorView> inputs{ones}, outputs{sum};
    const Attrs attrs = SumSquaresAttrs{};
    EXPECT_THROW(device->capture([&] {
      device->run(Op::sum_squares, {inputs, outputs, &attrs, {memory->data() + 512, 512}});
      fail("no more");
    }),
                 Error);
  }
  float found = -1;
  device->download(std::as_writable_bytes(std::span(&found, 1)), memory->data() + 256);
  EXPECT_EQ(found, 0.0f);
  EXPECT_NE(device->allocate(256)->data(), nullptr);
}

}  // namespace
}  // namespace tessera
