// Cross entropy of rows whose vocabulary is cut over ranks: each rank has the logits of its own words, and
// the ranks exchange three numbers per row instead of the logits. Used by linear_cross_entropy's kernels.
#pragma once

#include <span>

#include "tessera/backend/cpu/kernel.h"
#include "tessera/ops/cross_entropy.h"

namespace tessera::cpu {

template <class A>
struct CutRows {
  std::span<A> logits;  // [rows, columns], of which padding of the vocabulary is not scored
  std::int64_t columns = 0;
  std::span<const std::int32_t> targets;  // [rows], of the whole vocabulary
  std::span<A> summaries;                 // scratch: kRowSummary * rows * (ranks + 1)
};

inline std::int64_t summary_elems(std::int64_t rows, const CutRange& cut) {
  return cut.cut ? kRowSummary * rows * (cut.num_ranks + 1) : 0;
}

// The sum of -log softmax(row)[target], the same on every rank. With `grad_scale` the logits become their own
// gradients times it.
template <class A>
double cut_rows_loss(const KernelCall& call, Context& context, const CutRange& cut, const CutRows<A>& rows,
                     const A* grad_scale);

}  // namespace tessera::cpu
