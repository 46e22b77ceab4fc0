// slice, pad, concat: pieces of one dim, for concat the innermost. pad is slice's gradient: zeros around a
// piece.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct SliceAttrs {
  std::int64_t begin = 0;
  std::int64_t size = 0;  // columns of the piece
  int dim = -1;           // counted from the end
  void describe(AttrWriter& write) const {
    write("begin", begin);
    write("size", size);
    if (dim != -1) write("dim", dim);
  }
};

struct PadAttrs {
  std::int64_t begin = 0;
  std::int64_t total = 0;  // columns of the whole
  int dim = -1;            // counted from the end
  void describe(AttrWriter& write) const {
    write("begin", begin);
    write("total", total);
    if (dim != -1) write("dim", dim);
  }
};

// Elements between two neighbours of a dim: a piece of it is one stretch of memory in every row of what comes
// before.
std::int64_t dim_stride(const Shape& shape, int dim);

ValueId slice(Graph& graph, std::string name, ValueId x, std::int64_t begin, std::int64_t size, int dim = -1);
ValueId concat(Graph& graph, std::string name, std::vector<ValueId> pieces);

}  // namespace tessera
