#include "tessera/train/cuda_keys.h"

#include "tessera/train/config_schema.h"

namespace tessera {

void declare_cuda(ConfigSchema& s, CudaKeys& cuda) {
  s.boolean(
      "cuda.graphs", &cuda.graphs,
      "each program, or what lies between its collectives, as one CUDA graph; false: node by node, for a "
      "profiler. Same bits");
  s.text("cuda.tuning", &cuda.tuning,
         "how matrix products are computed: a file of `tessera tune`; empty: as cuBLASLt proposes");
  s.boolean("cuda.cudnn", &cuda.cudnn,
            "attention by cuDNN where none of our fast kernels computes it; false: by slower ones of our "
            "own, whose "
            "bits do not depend on cuDNN's version");
  s.integer(
      "cuda.attention_scratch_mb", &cuda.attention_scratch_mb,
      "MiB for the scores' gradients of attention at a time where cuDNN computes them, one head's at the "
      "least; less is slower",
      {.min = 1, .max = 65536});
}

std::vector<std::string> changed_keys(const CudaKeys& cuda) {
  CudaKeys keys;
  ConfigSchema schema;
  declare_cuda(schema, keys);
  keys = cuda;
  std::vector<std::string> changed;
  for (const ConfigKey& key : schema.keys()) {
    if (!is_default(key)) changed.push_back(key.path);
  }
  return changed;
}

}  // namespace tessera
