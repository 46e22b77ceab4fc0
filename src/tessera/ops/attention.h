// attention: softmax(q k^T scale) v per head, without ever storing the T x T scores: blocks of keys
// stream past blocks of queries with a running maximum (Dao et al., 2022). Kept for the gradient: the
// output and the log-sum-exp of every query's scores, so memory grows linearly in T.
#pragma once

#include "tessera/ops/heads.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct AttentionAttrs {
  HeadLayout heads;
  double scale = 1.0;
  bool causal = true;
  void describe(AttrWriter& write) const {
    heads.describe(write);
    write("scale", scale);
    write("causal", causal);
  }
};

// qkv[B, T, (H + 2 KV) head_dim] -> [B, T, H head_dim]
ValueId attention(Graph& graph, std::string name, ValueId qkv, const AttentionAttrs& attrs);

}  // namespace tessera
