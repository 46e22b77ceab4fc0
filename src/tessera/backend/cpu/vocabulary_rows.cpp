#include "tessera/backend/cpu/vocabulary_rows.h"

#include <cmath>
#include <limits>

#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/softmax_row.h"
#include "tessera/backend/cpu/vector_math.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {
namespace {

// What a rank tells the others of a row.
template <class A>
struct Summary {
  A max, sum, target_logit;  // the logit is 0 on the ranks that do not have it
};

// The whole row's numbers, from the ranks' in their order.
template <class A>
Summary<A> combine(const Summary<A>* of_rank, std::int64_t stride, int num_ranks) {
  Summary<A> whole{-std::numeric_limits<A>::infinity(), 0, 0};
  for (int r = 0; r < num_ranks; ++r) whole.max = std::max(whole.max, of_rank[r * stride].max);
  for (int r = 0; r < num_ranks; ++r) {
    const Summary<A>& part = of_rank[r * stride];
    // Ranks without words have nothing to add, and no largest. NaN counts.
    if (part.sum != 0) whole.sum += part.sum * std::exp(part.max - whole.max);
    whole.target_logit += part.target_logit;
  }
  return whole;
}

}  // namespace

template <class A>
double cut_rows_loss(const KernelCall& call, Context& context, const CutRange& cut, const CutRows<A>& rows,
                     const A* grad_scale) {
  const auto num_rows = static_cast<std::int64_t>(rows.targets.size());
  const std::int64_t first = first_index(call, cut, rows.columns);
  const std::int64_t words = std::clamp<std::int64_t>(cut.whole - first, 0, rows.columns);
  static_assert(sizeof(Summary<A>) == kRowSummary * sizeof(A));
  auto* const own = reinterpret_cast<Summary<A>*>(rows.summaries.data());
  Summary<A>* const all = own + num_rows;
  const auto row_of = [&](std::int64_t r) {
    return rows.logits.subspan(static_cast<std::size_t>(r * rows.columns), static_cast<std::size_t>(words));
  };
  const auto local_target = [&](std::int64_t r) {
    const std::int64_t target = rows.targets[static_cast<std::size_t>(r)] - first;
    return target >= 0 && target < words ? target : -1;
  };
  for_each_row(context.pool, num_rows, rows.columns, [&](std::int64_t r) {
    const std::int64_t target = local_target(r);
    const SoftmaxRow<A> row = words > 0 ? softmax_row(std::span<const A>(row_of(r)))
                                        : SoftmaxRow<A>{-std::numeric_limits<A>::infinity(), 0};
    own[r] = {row.max, row.sum, target < 0 ? A{0} : row_of(r)[static_cast<std::size_t>(target)]};
  });
  call.ranks->group(group_of(cut.axis)).all_gather(own, all, {1, kRowSummary * num_rows}, dtype_of<A>);
  return sum_over_blocks(context.pool, num_rows, 1, [&](std::int64_t begin, std::int64_t end) {
    double loss = 0;
    for (std::int64_t r = begin; r < end; ++r) {
      const Summary<A> whole = combine(all + r, num_rows, cut.num_ranks);
      const bool scored = rows.targets[static_cast<std::size_t>(r)] >= 0;
      if (scored)
        loss +=
            std::log(static_cast<double>(whole.sum)) + static_cast<double>(whole.max - whole.target_logit);
      if (grad_scale == nullptr) continue;
      const std::span<A> row = row_of(r);
      const std::int64_t target = local_target(r);
      if (scored) {
        write_softmax(std::span<const A>(row), SoftmaxRow<A>{whole.max, whole.sum}, *grad_scale, row);
        if (target >= 0) {
          row[static_cast<std::size_t>(target)] =
              (exp(whole.target_logit - whole.max) / whole.sum - A{1}) * *grad_scale;
        }
      }
      const std::int64_t zeros_from = scored ? words : 0;
      A* const whole_row = rows.logits.data() + r * rows.columns;
      std::fill(whole_row + zeros_from, whole_row + rows.columns, A{0});
    }
    return loss;
  });
}

template double cut_rows_loss(const KernelCall&, Context&, const CutRange&, const CutRows<float>&,
                              const float*);
template double cut_rows_loss(const KernelCall&, Context&, const CutRange&, const CutRows<double>&,
                              const double*);

}  // namespace tessera::cpu
