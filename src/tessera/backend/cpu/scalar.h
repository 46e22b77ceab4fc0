// A scalar that the host or another node wrote, in its own type; for kernels of the update program.
#pragma once

#include "tessera/base/tensor_view.h"

namespace tessera::cpu {

inline double scalar(const TensorView& tensor, std::int64_t index = 0) {
  TS_ASSERT(index < tensor.num_elems());
  const auto at = static_cast<std::size_t>(index);
  switch (tensor.dtype) {
    case DType::f32:
      return tensor.as<float>()[at];
    case DType::f64:
      return tensor.as<double>()[at];
    case DType::i32:
      return tensor.as<std::int32_t>()[at];
    case DType::bf16:
    case DType::i16:
      break;
  }
  TS_ASSERT(!"a scalar is f32, f64 or i32");
  return 0;
}

}  // namespace tessera::cpu
