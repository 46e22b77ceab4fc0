// An NVIDIA GPU as a device: a stream for work and one for collectives, kernels in this folder, matrix
// products through cuBLASLt.
//
// Made by train/from_config for `device: cuda`. In a build without CUDA, and on a machine without a GPU,
// make_cuda_device throws an Error that says so; nothing else of the program needs CUDA.
#pragma once

#include <memory>
#include <string>

#include "tessera/runtime/device.h"

namespace tessera {

// GPUs of this machine that this program can use; none if it was built without CUDA.
int num_cuda_gpus();

struct CudaOptions {
  // How to compute what can be computed in several ways: text from Device::search_choices(), and the file it
  // came from, for messages. Empty: as the libraries propose.
  std::string choices, choices_file;
  bool graphs = true;  // run programs, or what lies between their collectives, as CUDA graphs; same bits
  bool cudnn = true;   // attention by cuDNN where it is here and none of our fast kernels computes it
  std::int64_t attention_scratch_bytes = std::int64_t{1} << 30;  // cudnn_attention.h
};

// GPU `ordinal` of this machine. `host` runs the collectives where the ranks' GPUs cannot talk (rank_link.h),
// on copies in host memory.
std::unique_ptr<Device> make_cuda_device(int ordinal, std::unique_ptr<Device> host,
                                         const CudaOptions& options = {});

}  // namespace tessera
