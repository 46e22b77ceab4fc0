// slice, pad, concat: pieces of the innermost dim. pad is slice's gradient: zeros around a piece.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct SliceAttrs {
  std::int64_t begin = 0;
  std::int64_t size = 0;  // columns of the piece
  void describe(AttrWriter& write) const {
    write("begin", begin);
    write("size", size);
  }
};

struct PadAttrs {
  std::int64_t begin = 0;
  std::int64_t total = 0;  // columns of the whole
  void describe(AttrWriter& write) const {
    write("begin", begin);
    write("total", total);
  }
};

ValueId slice(Graph& graph, std::string name, ValueId x, std::int64_t begin, std::int64_t size);
ValueId concat(Graph& graph, std::string name, std::vector<ValueId> pieces);

}  // namespace tessera
