// attention: softmax(q k^T scale) v per head, without ever storing the T x T scores: blocks of keys
// stream past blocks of queries with a running maximum (Dao et al., 2022). Kept for the gradient: the
// output and the log-sum-exp of every query's scores, so memory grows linearly in T.
//
// Sequences that are padded at their end say how many of their tokens are real, at least one: no query sees
// the keys behind them. A count instead of a mask of T flags, as blocks of keys that nobody sees are then
// skipped, and nothing else is needed: padding is at the end.
//
// With dropout, probabilities are zeroed behind the softmax and the others scaled up; attention_dropout.h
// says which. No mask is kept: forward, gradient and recompute draw the same numbers again.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct AttentionAttrs {
  HeadLayout heads;
  double scale = 1.0;
  bool causal = true;
  double dropout = 0.0;       // of probabilities; if it is not 0, a dropout key is the node's last input
  std::int64_t stream = 0;    // which dropout of the model this is
  CutRange head_range = {};   // a rank's heads among all; for dropout alone, as the next
  CutRange batch_range = {};  // of an axis other than dp, whose first sequence the key says
  bool drops() const { return dropout > 0; }
  void describe(AttrWriter& write) const {
    heads.describe(write);
    write("scale", scale);
    write("causal", causal);
    if (!drops()) return;
    write("dropout", dropout);
    write("stream", stream);
    head_range.describe(write, "head_range");
    batch_range.describe(write, "batch_range");
  }
};

// qkv[B, T, (H + 2 KV) head_dim], key_counts i32[B, 1] (kNoValue: all T) -> [B, T, H head_dim]
// dropout_key: kDropoutKeyType if attrs.drops(), else kNoValue
ValueId attention(Graph& graph, std::string name, ValueId qkv, const AttentionAttrs& attrs,
                  ValueId key_counts = kNoValue, ValueId dropout_key = kNoValue);

// The optional operands behind the first `required` of an attention or attention_grad.
struct AttentionOptions {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t key_counts = kNone, dropout_key = kNone;  // which input
};
AttentionOptions attention_options(const AttentionAttrs& attrs, std::size_t num_inputs, std::size_t required);

}  // namespace tessera
