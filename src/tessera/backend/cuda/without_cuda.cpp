// All there is of backend/cuda where nvcc was not found.
#include "tessera/backend/cuda/cuda_device.h"

namespace tessera {

int num_cuda_gpus() {
  return 0;
}

std::unique_ptr<Device> make_cuda_device(int, std::unique_ptr<Device>, const CudaOptions&) {
  fail(
      "device: cuda, but this tessera was built without CUDA: build it where nvcc is found "
      "(-DTESSERA_CUDA=ON), or set device: cpu");
}

}  // namespace tessera
