// The CUDA device on an emulated GPU, where the sanitizers watch what it reads.
#include "tessera/backend/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

// The maximum passes over it, so that a thread that sees nothing else could take its part of the row for
// empty.
TEST(CudaDeviceTest, ANaNIsInAllOfARowsSoftmax) {
  const std::unique_ptr<Device> device = make_cuda_device(0, make_cpu_device(1));
  const std::unique_ptr<DeviceMemory> memory = device->allocate(512);
  std::vector<float> row(64, 1.0f);
  std::fill_n(row.begin() + 16, 16, std::numeric_limits<float>::quiet_NaN());
  device->upload(memory->data(), std::as_bytes(std::span(row)));
  const std::vector<TensorView> inputs{{memory->data(), DType::f32, Shape{1, 64}}},
      outputs{{memory->data() + 256, DType::f32, Shape{1, 64}}};
  const Attrs attrs;
  device->run(Op::softmax, {inputs, outputs, &attrs, {}});
  device->download(std::as_writable_bytes(std::span(row)), memory->data() + 256);
  for (const float probability : row) EXPECT_TRUE(std::isnan(probability));
}

// Of an odd width, which only the plain product takes.
TEST(CudaDeviceTest, ProductsHaveMoreColumnsThanAGridHasRowsOfTiles) {
  constexpr std::int64_t kColumns = 16 * 65535 + 1;
  const std::unique_ptr<Device> device = make_cuda_device(0, make_cpu_device(1));
  const std::unique_ptr<DeviceMemory> memory = device->allocate(256 + 4 * kColumns);
  std::vector<Bf16> weight(kColumns);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = Bf16(static_cast<float>(i % 251));
  const std::vector<Bf16> x{Bf16(2.0f)};
  std::byte* const at = memory->data();
  device->upload(at, std::as_bytes(std::span(x)));
  device->upload(at + 256, std::as_bytes(std::span(weight)));
  const std::vector<TensorView> inputs{{at, DType::bf16, Shape{1, 1}},
                                       {at + 256, DType::bf16, Shape{kColumns, 1}}},
      outputs{{at + 256 + 2 * kColumns, DType::bf16, Shape{1, kColumns}}};
  const Attrs attrs;
  device->run(Op::linear, {inputs, outputs, &attrs, {}});
  std::vector<Bf16> found(kColumns);
  device->download(std::as_writable_bytes(std::span(found)), at + 256 + 2 * kColumns);
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(static_cast<float>(found[i]), 2 * static_cast<float>(weight[i])) << i;
}

}  // namespace
}  // namespace tessera
