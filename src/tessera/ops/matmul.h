// matmul: a batch of plain matrix products, op(a) op(b), each optionally transposed. Models use
// `linear`; this one serves compositions and attention written out by hand.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  void describe(AttrWriter& write) const {
    write("transpose_a", transpose_a);
    write("transpose_b", transpose_b);
  }
};

// a[..., M, K] b[..., K, N] -> [..., M, N]; leading dims equal.
ValueId matmul(Graph& graph, std::string name, ValueId a, ValueId b, MatmulAttrs attrs = {});

}  // namespace tessera
