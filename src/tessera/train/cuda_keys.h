// The keys cuda.*: how a GPU runs the plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

class ConfigSchema;

struct CudaKeys {
  bool graphs = true;  // programs, or what lies between their collectives, as CUDA graphs
  std::string tuning;  // file of `tessera tune`; empty: products as the library proposes
  bool cudnn = true;   // attention by cuDNN where none of our fast kernels computes it
  std::int64_t attention_scratch_mb = 1024;
  bool operator==(const CudaKeys&) const = default;
};

void declare_cuda(ConfigSchema& schema, CudaKeys& cuda);

// The paths of those with another value than their default. On another device they say nothing: one config
// serves both, and `tessera train` names what it passes over.
std::vector<std::string> changed_keys(const CudaKeys& cuda);

}  // namespace tessera
