// rope_table, rope.
#include "tessera/backend/cuda/launch.cuh"
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
};

// A thread turns W pairs of one head of one token, in place.
template <int W, class T>
__global__ void turn_pairs(T* qkv, const float* table, RopeShape shape, float direction) {
  const int packs = shape.half / W;
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t token = at / (shape.turned_heads * packs);
  if (token >= shape.tokens) return;
  const int head = static_cast<int>(at / packs % shape.turned_heads), i = static_cast<int>(at % packs) * W;
  T* const low = qkv + token * shape.columns + head * shape.head_dim + i;
  T* const high = low + shape.half;
  const float* const turns = table + (token % shape.seq_len * shape.half + i) * 2;
  float first[W], second[W];
  load<W>(low, first);
  load<W>(high, second);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const float cosine = turns[2 * k], sine = direction * turns[2 * k + 1];
    const float x = first[k], y = second[k];
    first[k] = x * cosine - y * sine;
    second[k] = y * cosine + x * sine;
  }
  store<W>(low, first);
  store<W>(high, second);
}

}  // namespace

void rope_table(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeTableAttrs>();
  const std::int64_t half = attrs.rotary_dim / 2, num_pairs = attrs.seq_len * half;
  turns_of_positions<<<num_blocks(num_pairs, kThreads), kThreads, 0, context.stream>>>(
      data<float>(call.outputs[0]), num_pairs, static_cast<int>(half), static_cast<double>(attrs.rotary_dim),
      attrs.theta);
}

// The planner nearly always turns in place; where it does not, the heads are copied first.
void rope(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<RopeAttrs>();
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const RopeShape shape{x.shape.num_rows(),
                        static_cast<int>(x.shape[1]),
                        static_cast<int>(x.shape[2]),
                        static_cast<int>(attrs.heads.head_dim),
                        static_cast<int>(call.inputs[1].shape[1]),
                        static_cast<int>(attrs.heads.heads + attrs.heads.kv_heads)};
  if (x.data != y.data) {
    check_cuda(cudaMemcpyAsync(y.data, x.data, static_cast<std::size_t>(x.num_bytes()),
                               cudaMemcpyDeviceToDevice, context.stream),
               "copy heads");
  }
  for_dtype(x.dtype, [&]<class T>(T) {
    const bool fit =
        packs_fit<T>(shape.half, data<T>(y)) && packs_fit<T>(shape.head_dim) && packs_fit<T>(shape.columns);
    with_packs<T>(fit, [&]<class Width>(Width) {
      constexpr int W = Width::value;
      const std::int64_t threads = shape.tokens * shape.turned_heads * (shape.half / W);
      turn_pairs<W><<<num_blocks(threads, kThreads), kThreads, 0, context.stream>>>(
          data<T>(y), data<float>(call.inputs[1]), shape, attrs.inverse ? -1.0f : 1.0f);
    });
  });
}

}  // namespace tessera::cuda
