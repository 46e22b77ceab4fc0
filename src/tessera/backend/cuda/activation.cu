// silu, gelu, tanh, swiglu and their gradients.
#include "tessera/backend/cuda/map.cuh"
#include "tessera/ops/activation.h"

namespace tessera::cuda {
namespace {

// Kernels on bf16 take the fast instructions: they are right to 2^-20 or better, and the exact ones would
// make these kernels wait for arithmetic instead of memory.
template <class T>
inline constexpr bool kFast = std::is_same_v<T, BFloat>;

template <class T>
__device__ float exponential(float x) {
  return kFast<T> ? __expf(x) : expf(x);
}

template <class T>
__device__ float sigmoid(float x) {
  return kFast<T> ? __fdividef(1.0f, 1.0f + __expf(-x)) : 1.0f / (1.0f + expf(-x));
}

// Functions with value(x) and slope(x) = value'(x).
template <class T>
struct Silu {
  __device__ static float value(float x) { return x * sigmoid<T>(x); }
  __device__ static float slope(float x) {
    const float s = sigmoid<T>(x);
    return s * (1.0f + x * (1.0f - s));
  }
};

// x times the normal distribution function (Hendrycks and Gimpel, 2016).
template <class T>
struct Gelu {
  struct Normal {
    float below, density;
  };
  __device__ static Normal normal(float x) {
    constexpr float kDensityAtZero = 0.39894228f;
    const float falloff = exponential<T>(-0.5f * x * x);
    if constexpr (kFast<T>) {
      // Of |x| / sqrt(2), to 1e-7: Abramowitz and Stegun, 7.1.26.
      const float t = __fdividef(1.0f, fmaf(0.3275911f * 0.70710678f, fabsf(x), 1.0f));
      const float series =
          fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t,
               0.254829592f);
      const float above = 0.5f * series * t * falloff;
      return {x < 0 ? above : 1.0f - above, kDensityAtZero * falloff};
    } else {
      return {0.5f * (1.0f + erff(x * 0.70710678f)), kDensityAtZero * falloff};
    }
  }
  __device__ static float value(float x) { return x * normal(x).below; }
  __device__ static float slope(float x) {
    const Normal n = normal(x);
    return n.below + x * n.density;
  }
};

// With (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where tanh is near -1.
template <class T>
struct GeluTanh {
  static constexpr float kScale = 0.79788456f;  // sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;
  __device__ static float share(float x) { return sigmoid<T>(2.0f * kScale * (x + kCubic * x * x * x)); }
  __device__ static float value(float x) { return x * share(x); }
  __device__ static float slope(float x) {
    const float s = share(x);
    return s + x * s * (1.0f - s) * (2.0f * kScale) * (1.0f + 3.0f * kCubic * x * x);
  }
};

// Exact in bf16, too: it is the pooler's alone, a row per sequence.
template <class T>
struct Tanh {
  __device__ static float value(float x) { return tanhf(x); }
  __device__ static float slope(float x) {
    const float y = tanhf(x);
    return 1.0f - y * y;
  }
};

template <class F>
struct Apply {
  __device__ float operator()(float x, float) const { return F::value(x); }
};
template <class F>
struct ApplyGrad {
  __device__ float operator()(float dy, float x) const { return dy * F::slope(x); }
};

template <template <class> class F>
void apply(const KernelCall& call, Context& context) {
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    map<T>(context, data<T>(call.inputs[0]), nullptr, data<T>(call.outputs[0]), call.inputs[0].num_elems(), 0,
           Apply<F<T>>{});
  });
}

template <template <class> class F>
void apply_grad(const KernelCall& call, Context& context) {
  const std::int64_t num_elems = call.inputs[0].num_elems();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    map(context, data<T>(call.inputs[0]), data<T>(call.inputs[1]), data<T>(call.outputs[0]), num_elems,
        num_elems, ApplyGrad<F<T>>{});
  });
}

bool by_tanh(const KernelCall& call) {
  return call.attrs->as<GeluAttrs>().tanh_approximation;
}

// Block x is a row of a [rows, width] tensor, y a strip of its columns; the packed [gate | up] has rows twice
// as wide. No division: it would cost as much as the function.
template <int W>
__device__ std::int64_t strip_column() {
  return (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
}
dim3 strips(std::int64_t rows, std::int64_t width, int w) {
  return {static_cast<unsigned>(rows), num_blocks(width, std::int64_t{row_threads(width, w)} * w)};
}

template <int W, class T>
__global__ void swiglu_packs(const T* gate_up, T* y, std::int64_t width) {
  const std::int64_t row = blockIdx.x, column = strip_column<W>();
  if (column >= width) return;
  const T* const from = gate_up + row * 2 * width + column;
  float gate[W], up[W];
  load<W>(from, gate);
  load<W>(from + width, up);
#pragma unroll
  for (int i = 0; i < W; ++i) gate[i] = Silu<T>::value(gate[i]) * up[i];
  store<W>(y + row * width + column, gate);
}

// grad may lie on gate_up.
template <int W, class T>
__global__ void swiglu_grad_packs(const T* dy, const T* gate_up, T* grad, std::int64_t width) {
  const std::int64_t row = blockIdx.x, column = strip_column<W>();
  if (column >= width) return;
  const std::int64_t at = row * 2 * width + column;
  float d[W], gate[W], up[W];
  load<W>(dy + row * width + column, d);
  load<W>(gate_up + at, gate);
  load<W>(gate_up + at + width, up);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float g = gate[i], s = sigmoid<T>(g);
    gate[i] = d[i] * up[i] * s * (1.0f + g * (1.0f - s));
    up[i] = d[i] * g * s;
  }
  store<W>(grad + at, gate);
  store<W>(grad + at + width, up);
}

}  // namespace

void silu(const KernelCall& call, Context& context) {
  apply<Silu>(call, context);
}
void silu_grad(const KernelCall& call, Context& context) {
  apply_grad<Silu>(call, context);
}

void gelu(const KernelCall& call, Context& context) {
  by_tanh(call) ? apply<GeluTanh>(call, context) : apply<Gelu>(call, context);
}
void gelu_grad(const KernelCall& call, Context& context) {
  by_tanh(call) ? apply_grad<GeluTanh>(call, context) : apply_grad<Gelu>(call, context);
}

void tanh(const KernelCall& call, Context& context) {
  apply<Tanh>(call, context);
}
void tanh_grad(const KernelCall& call, Context& context) {
  apply_grad<Tanh>(call, context);
}

void swiglu(const KernelCall& call, Context& context) {
  const std::int64_t rows = call.outputs[0].shape.num_rows(), width = call.outputs[0].shape[-1];
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* gate_up = data<T>(call.inputs[0]);
    T* y = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(width, gate_up, y), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      swiglu_packs<W>
          <<<strips(rows, width, W), row_threads(width, W), 0, context.stream>>>(gate_up, y, width);
    });
  });
}

void swiglu_grad(const KernelCall& call, Context& context) {
  const std::int64_t rows = call.inputs[0].shape.num_rows(), width = call.inputs[0].shape[-1];
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *dy = data<T>(call.inputs[0]), *gate_up = data<T>(call.inputs[1]);
    T* grad = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(width, dy, gate_up, grad), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      swiglu_grad_packs<W>
          <<<strips(rows, width, W), row_threads(width, W), 0, context.stream>>>(dy, gate_up, grad, width);
    });
  });
}

}  // namespace tessera::cuda
