// The losses. Both sum -log softmax(logits)[target] over the scored rows, times a scale that the host
// sets to 1 / (scored tokens of the whole global batch): neither micro-batches nor data parallelism
// change the loss. A negative target is not scored.
//
// linear_cross_entropy fuses the output projection: it makes the logits of `chunk_rows` rows at a
// time, so the whole [tokens, vocabulary] matrix never exists. Its gradient op computes loss and
// gradients together from one pass over the chunks, and the training step reads the loss there.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct LinearCrossEntropyAttrs {
  std::int64_t chunk_rows = 0;
  void describe(AttrWriter& write) const { write("chunk_rows", chunk_rows); }
};

// logits[..., V], targets[...], loss_scale[] -> loss[]
ValueId softmax_cross_entropy(Graph& graph, std::string name, ValueId logits, ValueId targets, ValueId loss_scale);

// x[..., D], weight[V, D], targets[...], loss_scale[] -> loss[]
ValueId linear_cross_entropy(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId targets,
                             ValueId loss_scale);

}  // namespace tessera
