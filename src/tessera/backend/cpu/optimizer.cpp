// sum_squares, sum_scalars, stack_scalars, clip_factor, adamw.
#include <cmath>
#include <utility>

#include "tessera/backend/cpu/gemm_pack.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/update_types.h"
#include "tessera/ops/optimizer_ops.h"

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

// What an update multiplies with, the same for all elements: Loshchilov and Hutter (2019). Computed in
// double, since 1 - beta2^step cancels in float. The two forms differ in which of the decays is 1 and in eps
// alone, so that one loop, exact where it multiplies by 1, does for both.
template <class A>
struct AdamWFactors {
  A decay_before, decay_after;
  A clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, deviation_correction, eps;

  AdamWFactors(const AdamWAttrs& attrs, double learning_rate, double step, double clip_factor)
      : decay_before(static_cast<A>(1.0 - learning_rate * attrs.weight_decay)),
        decay_after(1),
        clip(static_cast<A>(clip_factor)),
        beta1(static_cast<A>(attrs.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - attrs.beta1)),
        beta2(static_cast<A>(attrs.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - attrs.beta2)),
        step_size(static_cast<A>(learning_rate / (1.0 - std::pow(attrs.beta1, step)))),
        deviation_correction(static_cast<A>(std::sqrt(1.0 - std::pow(attrs.beta2, step)))),
        eps(static_cast<A>(attrs.eps)) {
    if (attrs.form == AdamWForm::torch) return;
    std::swap(decay_before, decay_after);
    eps = static_cast<A>(attrs.eps / std::sqrt(1.0 - std::pow(attrs.beta2, step)));
  }
};

// Updates [begin, end) of the weights and moments. `weight` is the parameter, or
// its master copy, and then `rounded` is the parameter.
template <class T, class S, class W>
void adamw_block(const AdamWFactors<Accumulate<W>>& by, W* weight, const Accumulate<W>* grad, S* moment1,
                 S* moment2, T* rounded, std::int64_t begin, std::int64_t end) {
  using A = Accumulate<W>;
  const AdamWFactors<A> f = by;  // a copy that no store can change, so it stays in registers
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const A g = grad[i] * f.clip;
    const A m = f.beta1 * widen(moment1[i]) + f.one_minus_beta1 * g;
    const A v = f.beta2 * widen(moment2[i]) + f.one_minus_beta2 * g * g;
    const A stepped = widen(weight[i]) * f.decay_before -
                      f.step_size * (m / (std::sqrt(v) / f.deviation_correction + f.eps));
    const A w = stepped * f.decay_after;
    put(moment1[i], m);
    put(moment2[i], v);
    put(weight[i], w);
    if constexpr (!std::is_same_v<T, W>) put(rounded[i], w);
  }
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

void adamw(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  for (std::size_t i = 1; i < 3; ++i) TS_ASSERT(call.inputs[i + 1].data == call.outputs[i].data);
  const auto& attrs = call.attrs->as<AdamWAttrs>();
  const double learning_rate = scalar(call.inputs[4]), step = scalar(call.inputs[5]);
  const double clip = scalar(call.inputs[6]);
  const TensorView* const master = call.outputs.size() == 4 ? &call.outputs[3] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  for_update_types(call.inputs[0].dtype, call.inputs[2].dtype, master,
                   [&]<class T, class S, class W>(T, S, W) {
                     using A = Accumulate<W>;
                     const AdamWFactors<A> factors(attrs, learning_rate, step, clip);
                     W* const weight = own_weight<W>(call.outputs[0], master, own);
                     const A* const grad = call.inputs[1].as<A>().data() + own.begin;
                     S* const moment1 = call.outputs[1].as<S>().data();
                     S* const moment2 = call.outputs[2].as<S>().data();
                     T* const rounded = call.outputs[0].as<T>().data() + own.begin;
                     for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
                       adamw_block(factors, weight, grad, moment1, moment2, rounded, begin, end);
                     });
                   });
}

}  // namespace tessera::cpu
