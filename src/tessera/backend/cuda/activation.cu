// silu, gelu, tanh, swiglu and their gradients.
#include "tessera/backend/cuda/map.cuh"
#include "tessera/ops/activation.h"

namespace tessera::cuda {
namespace {

__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// Functions with value(x) and slope(x) = value'(x).
struct Silu {
  __device__ static float value(float x) { return x * sigmoid(x); }
  __device__ static float slope(float x) {
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
  }
};

// x times the normal distribution function (Hendrycks and Gimpel, 2016).
struct Gelu {
  __device__ static float normal_below(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
  __device__ static float value(float x) { return x * normal_below(x); }
  __device__ static float slope(float x) {
    constexpr float kDensityAtZero = 0.39894228f;
    return normal_below(x) + x * kDensityAtZero * expf(-0.5f * x * x);
  }
};

struct GeluTanh {
  static constexpr float kScale = 0.79788456f;  // sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;
  __device__ static float tanh_of_cubic(float x) { return tanhf(kScale * (x + kCubic * x * x * x)); }
  __device__ static float value(float x) { return 0.5f * x * (1.0f + tanh_of_cubic(x)); }
  __device__ static float slope(float x) {
    const float t = tanh_of_cubic(x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kScale * (1.0f + 3.0f * kCubic * x * x);
  }
};

struct Tanh {
  __device__ static float value(float x) { return tanhf(x); }
  __device__ static float slope(float x) {
    const float t = tanhf(x);
    return 1.0f - t * t;
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

template <class F>
void apply(const KernelCall& call, Context& context) {
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    map<T>(context, data<T>(call.inputs[0]), nullptr, data<T>(call.outputs[0]), call.inputs[0].num_elems(), 0,
           Apply<F>{});
  });
}

template <class F>
void apply_grad(const KernelCall& call, Context& context) {
  const std::int64_t num_elems = call.inputs[0].num_elems();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    map(context, data<T>(call.inputs[0]), data<T>(call.inputs[1]), data<T>(call.outputs[0]), num_elems,
        num_elems, ApplyGrad<F>{});
  });
}

bool by_tanh(const KernelCall& call) {
  return call.attrs->as<GeluAttrs>().tanh_approximation;
}

// Element `column` of row `row` of a [rows, width] tensor, for the thread's pack; the packed [gate | up] has
// rows twice as wide.
struct PackPlace {
  std::int64_t row, column;
};
template <int W>
__device__ PackPlace pack_place(std::int64_t width) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  return {at / width, at % width};
}

template <int W, class T>
__global__ void swiglu_packs(const T* gate_up, T* y, std::int64_t rows, std::int64_t width) {
  const PackPlace place = pack_place<W>(width);
  if (place.row >= rows) return;
  const T* const from = gate_up + place.row * 2 * width + place.column;
  float gate[W], up[W];
  load<W>(from, gate);
  load<W>(from + width, up);
#pragma unroll
  for (int i = 0; i < W; ++i) gate[i] = Silu::value(gate[i]) * up[i];
  store<W>(y + place.row * width + place.column, gate);
}

// grad may lie on gate_up.
template <int W, class T>
__global__ void swiglu_grad_packs(const T* dy, const T* gate_up, T* grad, std::int64_t rows,
                                  std::int64_t width) {
  const PackPlace place = pack_place<W>(width);
  if (place.row >= rows) return;
  const std::int64_t at = place.row * 2 * width + place.column;
  float d[W], gate[W], up[W];
  load<W>(dy + place.row * width + place.column, d);
  load<W>(gate_up + at, gate);
  load<W>(gate_up + at + width, up);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float g = gate[i], s = sigmoid(g);
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
          <<<num_blocks(rows * width, W * kThreads), kThreads, 0, context.stream>>>(gate_up, y, rows, width);
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
      swiglu_grad_packs<W><<<num_blocks(rows * width, W * kThreads), kThreads, 0, context.stream>>>(
          dy, gate_up, grad, rows, width);
    });
  });
}

}  // namespace tessera::cuda
