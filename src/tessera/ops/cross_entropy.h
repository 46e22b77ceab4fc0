// The losses. Both sum -log softmax(logits)[target] over the scored rows, times a scale that the host
// sets to 1 / (scored tokens of the whole global batch): neither micro-batches nor data parallelism
// change the loss. A negative target is not scored.
//
// linear_cross_entropy fuses the output projection: it makes the logits of `chunk_rows` rows at a
// time, so the whole [tokens, vocabulary] matrix never exists. Its gradient op computes loss and
// gradients together from one pass over the chunks, and the training step reads the loss there. The weight
// may have more rows than there are words: what is beyond is padding, which has no logits and no gradient.
#pragma once

#include "tessera/ops/collectives.h"
#include "tessera/ops/cut_range.h"

namespace tessera {

struct LinearCrossEntropyAttrs {
  std::int64_t chunk_rows = 0;
  std::int64_t rows = 0;   // of x; 0: not told, and then not to be cut
  std::int64_t words = 0;  // rows of the whole weight that are words, the first ones; 0: all
  // Of a cut vocabulary a rank makes the logits of its own rows; the ranks then exchange three numbers per
  // token (maximum, sum of exponentials, target's logit), never the logits.
  CutRange vocabulary = {};
  void describe(AttrWriter& write) const {
    write("chunk_rows", chunk_rows);
    if (words != 0) write("words", words);
    vocabulary.describe(write, "vocabulary");
  }
};

// logits[..., V], targets[...], loss_scale[] -> loss[]
ValueId softmax_cross_entropy(Graph& graph, std::string name, ValueId logits, ValueId targets,
                              ValueId loss_scale);

struct OutputHead {
  ValueId weight = kNoValue;  // [V, D]
  ValueId bias = kNoValue;    // [V]; kNoValue: none
  std::int64_t words = 0;     // rows that are words; 0: all
};
// x[..., D], targets[...], loss_scale[] -> loss[]
ValueId linear_cross_entropy(Graph& graph, std::string name, ValueId x, const OutputHead& head,
                             ValueId targets, ValueId loss_scale);

// What the ranks of a cut vocabulary exchange: three numbers per token.
inline constexpr std::int64_t kRowSummary = 3;
std::vector<Traffic> cross_entropy_traffic(const Graph& graph, const Node& node);

}  // namespace tessera
