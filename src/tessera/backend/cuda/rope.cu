// rope_table, rope.
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/turned_rows.cuh"
#include "tessera/ops/rope.h"

namespace tessera::cuda {
namespace {

__global__ void turns_of_positions(float* table, std::int64_t num_pairs, int half, double rotary_dim,
                                   double theta) {
  const std::int64_t pair = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pair >= num_pairs) return;
  const double position = static_cast<double>(pair / half), i = static_cast<double>(pair % half);
  const double angle = position * pow(theta, -2.0 * i / rotary_dim);
  table[2 * pair] = static_cast<float>(cos(angle));
  table[2 * pair + 1] = static_cast<float>(sin(angle));
}

struct RopeShape {
  std::int64_t tokens;
  int seq_len, columns, head_dim, half, turned_heads;
  unsigned last;              // position of the table
  const std::int32_t* first;  // position of the first token, on the device; null: 0
};

// Pairs of x and y turned by angles with these (cosine, sine)s.
template <int W>
__device__ void turn(float (&x)[W], float (&y)[W], const float (&turns)[2 * W], float direction) {
#pragma unroll
  for (int k = 0; k < W; ++k) {
    turn_pair(x[k], y[k], turns[2 * k], direction * turns[2 * k + 1]);
  }
}

// A block per token; a thread turns W pairs of one head. `to` may be `from`; where it is not, whole heads are
// turned, and those that are not turned at all are copied.
template <int W, class T>
__global__ void turn_tokens(const T* from, T* to, const float* table, RopeShape shape, float direction) {
  const std::int64_t token = blockIdx.x, begin = token * shape.columns;
  // In 32 bits: a division of 64 would cost more than the turns.
  unsigned position = blockIdx.x % static_cast<unsigned>(shape.seq_len);
  if (shape.first != nullptr) position = min(position + static_cast<unsigned>(*shape.first), shape.last);
  const float* const turns_of_token = table + std::int64_t{position} * shape.half * 2;
  const unsigned packs = static_cast<unsigned>(shape.half / W);
  for (unsigned t = threadIdx.x; t < shape.turned_heads * packs; t += blockDim.x) {
    const unsigned head = t / packs, i = t % packs * W;
    const std::int64_t low = begin + head * shape.head_dim + i, high = low + shape.half;
    float first[W], second[W], turns[2 * W];
    load<W>(from + low, first);
    load<W>(from + high, second);
    constexpr int kTurns = W == 1 ? 2 : 4;  // a pair, or 16 bytes
#pragma unroll
    for (int k = 0; k < 2 * W; k += kTurns) {
      load<kTurns>(turns_of_token + 2 * i + k, reinterpret_cast<float(&)[kTurns]>(turns[k]));
    }
    turn(first, second, turns, direction);
    store<W>(to + low, first);
    store<W>(to + high, second);
  }
  if (from == to) return;
  for (int c = shape.turned_heads * shape.head_dim + static_cast<int>(threadIdx.x) * W; c < shape.columns;
       c += static_cast<int>(blockDim.x) * W) {
    float copied[W];
    load<W>(from + begin + c, copied);
    store<W>(to + begin + c, copied);
  }
}

}  // namespace

void rope_table(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeTableAttrs>();
  const std::int64_t half = attrs.rotary_dim / 2, num_pairs = attrs.seq_len * half;
  turns_of_positions<<<num_blocks(num_pairs, kThreads), kThreads, 0, context.stream>>>(
      data<float>(call.outputs[0]), num_pairs, static_cast<int>(half), static_cast<double>(attrs.rotary_dim),
      attrs.theta);
}

// The planner nearly always turns in place. Where it does not and heads are turned in part, they are copied
// first.
void rope(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeAttrs>();
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const RopeShape shape{x.shape.num_rows(),
                        static_cast<int>(x.shape[1]),
                        static_cast<int>(x.shape[2]),
                        static_cast<int>(attrs.heads.head_dim),
                        static_cast<int>(call.inputs[1].shape[1]),
                        static_cast<int>(attrs.heads.heads + attrs.heads.kv_heads),
                        static_cast<unsigned>(call.inputs[1].shape[0] - 1),
                        call.inputs.size() == 3 ? data<std::int32_t>(call.inputs[2]) : nullptr};
  const bool copied = x.data != y.data && 2 * shape.half != shape.head_dim;
  if (copied) {
    check_cuda(cudaMemcpyAsync(y.data, x.data, static_cast<std::size_t>(x.num_bytes()),
                               cudaMemcpyDeviceToDevice, context.stream),
               "copy heads");
  }
  for_dtype(x.dtype, [&]<class T>(T) {
    const T* const from = data<T>(copied ? y : x);
    const auto* const table = data<float>(call.inputs[1]);
    const bool fit = packs_fit<T>(shape.half, from, data<T>(y), table) && packs_fit<T>(shape.head_dim) &&
                     packs_fit<T>(shape.columns);
    with_packs<T>(fit, [&]<class Width>(Width) {
      constexpr int W = Width::value;
      constexpr unsigned kMostThreads = 512;
      const unsigned threads = row_threads(shape.turned_heads * shape.half, W, kMostThreads);
      turn_tokens<W><<<static_cast<unsigned>(shape.tokens), threads, 0, context.stream>>>(
          from, data<T>(y), table, shape, attrs.inverse ? -1.0f : 1.0f);
    });
  });
}

}  // namespace tessera::cuda
