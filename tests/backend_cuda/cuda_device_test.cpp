// What can be said of the CUDA device wherever the tests run: it is made, or says why not.
#include "tessera/backend/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include "tessera/backend/cpu/cpu_device.h"

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

TEST(CudaDeviceTest, RefusesAGpuThatIsNotThere) {
  EXPECT_THROW(make_cuda_device(1000, make_cpu_device(1)), Error);
}

}  // namespace
}  // namespace tessera
