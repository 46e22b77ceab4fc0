// sum_squares, sum_scalars, clip_factor, adamw.
#include <cmath>
#include <cstring>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/rank_part.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cpu {
namespace {

// A scalar the host or another node wrote, in its own type.
double scalar(const TensorView& tensor) {
  TS_ASSERT(tensor.num_elems() == 1);
  switch (tensor.dtype) {
    case DType::f32:
      return tensor.as<float>()[0];
    case DType::f64:
      return tensor.as<double>()[0];
    case DType::i32:
      return tensor.as<std::int32_t>()[0];
    case DType::bf16:
      break;
  }
  TS_ASSERT(!"a scalar is f32, f64 or i32");
  return 0;
}

template <class T>
double squares_of_block(const T* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) {
    const double value = widen(x[i]);
    sum += value * value;
  }
  return sum;
}

// What an update multiplies with, the same for all elements: Loshchilov and Hutter (2019), in the order
// of torch.optim.AdamW. Computed in double, since 1 - beta2^step cancels in float.
template <class A>
struct AdamWFactors {
  A decay, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, deviation_correction, eps;

  AdamWFactors(const AdamWAttrs& attrs, double learning_rate, double step, double clip_factor)
      : decay(static_cast<A>(1.0 - learning_rate * attrs.weight_decay)),
        clip(static_cast<A>(clip_factor)),
        beta1(static_cast<A>(attrs.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - attrs.beta1)),
        beta2(static_cast<A>(attrs.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - attrs.beta2)),
        step_size(static_cast<A>(learning_rate / (1.0 - std::pow(attrs.beta1, step)))),
        deviation_correction(static_cast<A>(std::sqrt(1.0 - std::pow(attrs.beta2, step)))),
        eps(static_cast<A>(attrs.eps)) {}
};

// Updates [begin, end) of the weights and moments and clears the gradient. `weight` is the parameter, or
// under bf16 its master copy, and then `rounded` is the parameter.
template <class T>
void adamw_block(const AdamWFactors<Accumulate<T>>& by, Accumulate<T>* weight, Accumulate<T>* grad,
                 Accumulate<T>* moment1, Accumulate<T>* moment2, T* rounded, std::int64_t begin,
                 std::int64_t end) {
  using A = Accumulate<T>;
  const AdamWFactors<A> f = by;  // a copy that no store can change, so it stays in registers
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const A g = grad[i] * f.clip;
    const A m = f.beta1 * moment1[i] + f.one_minus_beta1 * g;
    const A v = f.beta2 * moment2[i] + f.one_minus_beta2 * g * g;
    const A w = weight[i] * f.decay - f.step_size * (m / (std::sqrt(v) / f.deviation_correction + f.eps));
    moment1[i] = m;
    moment2[i] = v;
    grad[i] = 0;
    weight[i] = w;
    if constexpr (std::is_same_v<T, Bf16>) put(rounded[i], w);
  }
}

}  // namespace

void sum_squares(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<SumSquaresAttrs>();
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = call.inputs[0].as<T>().data();
    const auto sum_of = [&](std::int64_t first, std::int64_t last) {
      return sum_over_blocks(context.pool, last - first, kTaskElems,
                             [=](std::int64_t begin, std::int64_t end) {
                               return squares_of_block(x, first + begin, first + end);
                             });
    };
    double sum = 0;
    if (!attrs.copies.is_shard()) {
      sum = sum_of(own.begin, own.end);
    } else {
      const int rank = coordinate(call, attrs.copies_axis);
      for_each_shard_run(attrs.whole, attrs.copies, attrs.copies_ranks, rank, [&](const ShardRun& run) {
        const std::int64_t first = std::max(own.begin, run.local_offset);
        const std::int64_t last = std::min(own.end, run.local_offset + run.count);
        if (run.first_copy && first < last) sum += sum_of(first, last);
      });
    }
    call.outputs[0].as<Accumulate<T>>()[0] = static_cast<Accumulate<T>>(sum);
  });
}

void sum_scalars(const KernelCall& call, Context&) {
  double sum = 0;
  for (const TensorView& input : call.inputs) sum += scalar(input);
  for_dtype(call.outputs[0].dtype,
            [&]<class T>(T) { put(call.outputs[0].as<T>()[0], static_cast<Accumulate<T>>(sum)); });
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
  for (std::size_t i = 0; i < 4; ++i) TS_ASSERT(call.inputs[i].data == call.outputs[i].data);
  const double learning_rate = scalar(call.inputs[4]), step = scalar(call.inputs[5]);
  const double clip = scalar(call.inputs[6]);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const AdamWFactors<A> factors(call.attrs->as<AdamWAttrs>(), learning_rate, step, clip);
    const bool has_master = call.outputs.size() == 5;
    TS_ASSERT(has_master == (std::is_same_v<T, Bf16>));
    // Parameter and gradient lie whole, the state is this rank's range of them.
    const std::int64_t num_elems = call.inputs[0].num_elems();
    const ElementRange own = own_range(call, call.attrs->as<AdamWAttrs>().range, num_elems);
    A* weight = has_master ? call.outputs[4].as<A>().data() : call.outputs[0].as<A>().data() + own.begin;
    A* whole_grad = call.outputs[1].as<A>().data();
    A* grad = whole_grad + own.begin;
    A* moment1 = call.outputs[2].as<A>().data();
    A* moment2 = call.outputs[3].as<A>().data();
    T* rounded = call.outputs[0].as<T>().data() + own.begin;
    std::memset(whole_grad, 0, static_cast<std::size_t>(own.begin) * sizeof(A));
    std::memset(whole_grad + own.end, 0, static_cast<std::size_t>(num_elems - own.end) * sizeof(A));
    for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
      adamw_block<T>(factors, weight, grad, moment1, moment2, rounded, begin, end);
    });
  });
}

}  // namespace tessera::cpu
