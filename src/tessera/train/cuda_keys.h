// The keys cuda.*: how a GPU runs the plan.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

class ConfigSchema;

struct CudaKeys {
  bool graphs = true;  // each program as one CUDA graph
  std::string tuning;  // file of `tessera tune`; empty: products as the library proposes
  std::int64_t attention_scratch_mb = 1024;
  bool operator==(const CudaKeys&) const = default;
};

void declare_cuda(ConfigSchema& schema, CudaKeys& cuda);

}  // namespace tessera
