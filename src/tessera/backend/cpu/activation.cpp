// silu, gelu, tanh, swiglu and their gradients.
#include "tessera/ops/activation.h"

#include <numbers>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/vector_math.h"

namespace tessera::cpu {
namespace {

// Functions with value(x) and slope(x) = value'(x), for float and double.
struct Silu {
  template <class A>
  static A value(A x) {
    return x * sigmoid(x);
  }
  template <class A>
  static A slope(A x) {
    const A s = sigmoid(x);
    return s * (A{1} + x * (A{1} - s));
  }
};

// x times the normal distribution function (Hendrycks and Gimpel, 2016).
struct Gelu {
  template <class A>
  static A normal_below(A x) {
    return A(0.5) * (A{1} + erf(x * A(1 / std::numbers::sqrt2)));
  }
  template <class A>
  static A value(A x) {
    return x * normal_below(x);
  }
  template <class A>
  static A slope(A x) {
    constexpr A kDensityAtZero = A(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return normal_below(x) + x * kDensityAtZero * bounded_exp(A(-0.5) * x * x);
  }
};

struct GeluTanh {
  static constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  template <class A>
  static A tanh_of_cubic(A x) {
    return tanh(A(kScale) * (x + A(kCubic) * x * x * x));
  }
  template <class A>
  static A value(A x) {
    return A(0.5) * x * (A{1} + tanh_of_cubic(x));
  }
  template <class A>
  static A slope(A x) {
    const A t = tanh_of_cubic(x);
    const A inner_slope = A(kScale) * (A{1} + A(3 * kCubic) * x * x);
    return A(0.5) * (A{1} + t) + A(0.5) * x * (A{1} - t * t) * inner_slope;
  }
};

struct Tanh {
  template <class A>
  static A value(A x) {
    return tanh(x);
  }
  template <class A>
  static A slope(A x) {
    const A t = tanh(x);
    return A{1} - t * t;
  }
};

// y = f(x); y may lie on x.
template <class F>
void apply(const KernelCall& call, Context& context) {
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = call.inputs[0].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    for_each_elem_block(context.pool, call.inputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        put(y[i], F::value(widen(x[i])));
      }
    });
  });
}

// dx = dy f'(x); dx may lie on dy.
template <class F>
void apply_grad(const KernelCall& call, Context& context) {
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* dy = call.inputs[0].as<T>().data();
    const T* x = call.inputs[1].as<T>().data();
    T* dx = call.outputs[0].as<T>().data();
    for_each_elem_block(context.pool, call.inputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        put(dx[i], widen(dy[i]) * F::slope(widen(x[i])));
      }
    });
  });
}

bool by_tanh(const KernelCall& call) {
  return call.attrs->as<GeluAttrs>().tanh_approximation;
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

// [gate | up] -> silu(gate) up, row by row.
void swiglu(const KernelCall& call, Context& context) {
  const std::int64_t width = call.outputs[0].shape[-1];
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* gate_up = call.inputs[0].as<T>().data();
    T* out = call.outputs[0].as<T>().data();
    for_each_row(context.pool, call.outputs[0].shape.num_rows(), 2 * width, [=](std::int64_t row) {
      const T* gate = gate_up + row * 2 * width;
      const T* up = gate + width;
      T* y = out + row * width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        put(y[i], Silu::value(widen(gate[i])) * widen(up[i]));
      }
    });
  });
}

// The gradient may lie on gate_up.
void swiglu_grad(const KernelCall& call, Context& context) {
  const std::int64_t width = call.inputs[0].shape[-1];
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* grad_out = call.inputs[0].as<T>().data();
    const T* gate_up = call.inputs[1].as<T>().data();
    T* grad_in = call.outputs[0].as<T>().data();
    for_each_row(context.pool, call.inputs[0].shape.num_rows(), 2 * width, [=](std::int64_t row) {
      const T* dy = grad_out + row * width;
      const T* gate = gate_up + row * 2 * width;
      const T* up = gate + width;
      T* dgate = grad_in + row * 2 * width;
      T* dup = dgate + width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        const A d = widen(dy[i]), g = widen(gate[i]), u = widen(up[i]);
        const A s = sigmoid(g);
        put(dgate[i], d * u * s * (A{1} + g * (A{1} - s)));
        put(dup[i], d * g * s);
      }
    });
  });
}

}  // namespace tessera::cpu
