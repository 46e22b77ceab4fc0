// sum_squares, sum_scalars, stack_scalars, clip_factor.
#include <cmath>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/simd.h"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {
namespace {

// Adds up in several places of the block at once: one stream of reads does not keep the memory busy.
template <class T>
double squares_of_block(const T* x, std::int64_t begin, std::int64_t end) {
  constexpr int lanes = kLanes<double>, num_streams = 8;
  using Narrow = typename Simd<Compute<T>, lanes>::Vector;
  using Wide = typename Simd<double>::Vector;
  const std::int64_t stream = (end - begin) / (num_streams * lanes) * lanes;
  Wide sums[num_streams] = {};
  for (std::int64_t i = begin; i < begin + stream; i += lanes) {
#pragma GCC unroll 8
    for (int s = 0; s < num_streams; ++s) {
      Narrow value;
      load_converted<lanes>(value, x + s * stream + i);
      const Wide wide = __builtin_convertvector(value, Wide);
      sums[s] += wide * wide;
    }
  }
  double total = 0;
  for (const Wide& sum : sums) {
    for (int lane = 0; lane < lanes; ++lane) total += sum[lane];
  }
  for (std::int64_t i = begin + num_streams * stream; i < end; ++i) {
    const double value = widen(x[i]);
    total += value * value;
  }
  return total;
}

// The tensor lies there whole or, with fewer elements than `num_elems`, as this rank's range alone.
template <class T>
double counted_squares(const KernelCall& call, const TensorView& tensor, std::int64_t num_elems,
                       ThreadPool& pool) {
  const auto& attrs = call.attrs->as<SumSquaresAttrs>();
  const ElementRange counted = counted_range(call, attrs.range, num_elems);
  const std::int64_t stored_from =
      tensor.num_elems() < num_elems ? own_range(call, attrs.range, num_elems).begin : 0;
  const auto sum_of = [&](std::int64_t first, std::int64_t last) {
    const T* x = tensor.as<T>().data() + (first - stored_from);
    return sum_over_blocks(pool, last - first, kTaskElems, [=](std::int64_t begin, std::int64_t end) {
      return squares_of_block(x, begin, end);
    });
  };
  if (!attrs.copies.is_shard()) return sum_of(counted.begin, counted.end);
  double sum = 0;
  const int rank = coordinate(call, attrs.copies_axis);
  for_each_shard_run(attrs.whole, attrs.copies, attrs.copies_ranks, rank, [&](const ShardRun& run) {
    const std::int64_t first = std::max(counted.begin, run.local_offset);
    const std::int64_t last = std::min(counted.end, run.local_offset + run.count);
    if (run.first_copy && first < last) sum += sum_of(first, last);
  });
  return sum;
}

}  // namespace

void sum_squares(const KernelCall& call, Context& context) {
  std::int64_t num_elems = 0;
  for (const TensorView& input : call.inputs) num_elems = std::max(num_elems, input.num_elems());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    for_dtype(call.inputs[i].dtype, [&]<class T>(T) {
      call.outputs[i].as<Accumulate<T>>()[0] =
          static_cast<Accumulate<T>>(counted_squares<T>(call, call.inputs[i], num_elems, context.pool));
    });
  }
}

void sum_scalars(const KernelCall& call, Context&) {
  double sum = 0;
  for (const TensorView& input : call.inputs) sum += scalar(input);
  for_dtype(call.outputs[0].dtype,
            [&]<class T>(T) { put(call.outputs[0].as<T>()[0], static_cast<Accumulate<T>>(sum)); });
}

void stack_scalars(const KernelCall& call, Context&) {
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      call.outputs[0].as<T>()[i] = call.inputs[i].as<T>()[0];
  });
}

// As torch.nn.utils.clip_grad_norm_, whose 1e-6 keeps a norm of zero harmless.
void clip_factor(const KernelCall& call, Context&) {
  const double norm = std::sqrt(scalar(call.inputs[0])),
               max_norm = call.attrs->as<ClipFactorAttrs>().max_norm;
  const double factor = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    put(call.outputs[0].as<T>()[0], static_cast<Accumulate<T>>(norm));
    put(call.outputs[1].as<T>()[0], static_cast<Accumulate<T>>(factor));
  });
}

}  // namespace tessera::cpu
