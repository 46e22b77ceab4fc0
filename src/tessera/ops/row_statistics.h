// row_statistics: the type of what a norm keeps of every row for its gradient. Shared by rms_norm and
// layer_norm.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// x[rows..., D] -> [rows...], in the type that sums of x are kept in
inline ValueType row_statistics(const ValueType& x) {
  ValueType out{accumulate_dtype(x.dtype), {}};
  for (int d = 0; d + 1 < x.shape.rank(); ++d) out.shape.push_back(x.shape[d]);
  return out;
}

}  // namespace tessera
