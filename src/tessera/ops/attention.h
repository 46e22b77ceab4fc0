// attention: softmax(q k^T scale) v per head, without ever storing the T x T scores: blocks of keys
// stream past blocks of queries with a running maximum (Dao et al., 2022). Kept for the gradient: the
// output and the log-sum-exp of every query's scores, so memory grows linearly in T.
//
// Sequences that are padded at their end say how many of their tokens are real, at least one: no query sees
// the keys behind them. A count instead of a mask of T flags, as blocks of keys that nobody sees are then
// skipped, and nothing else is needed: padding is at the end.
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

// qkv[B, T, (H + 2 KV) head_dim], key_counts i32[B, 1] (kNoValue: all T) -> [B, T, H head_dim]
ValueId attention(Graph& graph, std::string name, ValueId qkv, const AttentionAttrs& attrs,
                  ValueId key_counts = kNoValue);

}  // namespace tessera
