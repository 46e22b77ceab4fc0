// cached_attention: the tokens' keys and values go to the caches first, then a block per query walks over the
// keys it sees, one thread a key, with a running maximum; the keys lie so that neighbouring threads read
// neighbours.
#include <math_constants.h>

#include "tessera/backend/cuda/attention.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/ops/cached_attention.h"

namespace tessera::cuda {
namespace {

constexpr int kMostHeadDim = 256;

struct CacheShape {
  int tokens, positions, heads, kv_heads, head_dim;
  float scale;
  __host__ __device__ std::int64_t columns() const { return std::int64_t{heads + 2 * kv_heads} * head_dim; }
};

// An element of a token's keys and its values per thread.
template <class T>
__global__ void append(CacheShape shape, const T* qkv, const std::int32_t* first, T* keys, T* values) {
  const int t = static_cast<int>(blockIdx.x), kv = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int d = static_cast<int>(threadIdx.x), position = *first + t;
  if (position >= shape.positions || d >= shape.head_dim) return;
  const T* const key =
      qkv + (std::int64_t{b} * shape.tokens + t) * shape.columns() + (shape.heads + kv) * shape.head_dim + d;
  const std::int64_t cache = (std::int64_t{b} * shape.kv_heads + kv) * shape.head_dim * shape.positions;
  keys[cache + std::int64_t{d} * shape.positions + position] = *key;
  values[cache + std::int64_t{position} * shape.head_dim + d] = key[shape.kv_heads * shape.head_dim];
}

// kThreads keys at a time. Values are added up by groups of threads, each with every so many keys and all
// columns; the groups' sums are added in order at the end.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attend_to_cache(CacheShape shape, const T* qkv, const std::int32_t* first, const T* keys, const T* values,
                    T* out) {
  __shared__ float query[kMostHeadDim], probs[kThreads], sums[kThreads];
  const int t = static_cast<int>(blockIdx.x), h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x), hd = shape.head_dim;
  const std::int64_t token = std::int64_t{b} * shape.tokens + t;
  const std::int64_t cache =
      (std::int64_t{b} * shape.kv_heads + h / (shape.heads / shape.kv_heads)) * hd * shape.positions;
  if (thread < hd) query[thread] = shape.scale * widen(qkv[token * shape.columns() + h * hd + thread]);
  __syncthreads();
  const int visible = min(shape.positions, *first + t + 1);
  const int groups = kThreads / hd, group = thread / hd, column = thread % hd;
  float max = -CUDART_INF_F, total = 0, sum = 0;
  for (int k0 = 0; k0 < visible; k0 += kThreads) {
    const int k = k0 + thread;
    float score = 0;
    for (int d = 0; k < visible && d < hd; ++d) {
      score += query[d] * widen(keys[cache + std::int64_t{d} * shape.positions + k]);
    }
    const float raised = reduce_block(k < visible ? fmaxf(max, score) : max, Max{}, -CUDART_INF_F);
    const float p = k < visible ? expf(score - raised) : 0.0f, correction = expf(max - raised);
    probs[thread] = p;
    total = total * correction + block_sum(p);  // synchronizes: all see the probabilities
    max = raised;
    sum *= correction;
    const int count = min(kThreads, visible - k0);
    for (int i = group; group < groups && i < count; i += groups) {
      sum += probs[i] * widen(values[cache + std::int64_t{k0 + i} * hd + column]);
    }
    __syncthreads();  // before the next keys overwrite the probabilities
  }
  sums[thread] = sum;
  __syncthreads();
  if (thread >= hd) return;
  float all = 0;
  for (int i = 0; i < groups; ++i) all += sums[i * hd + thread];
  out[token * shape.heads * hd + h * hd + thread] = narrow<T>(all / total);
}

}  // namespace

void cached_attention(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<AttentionAttrs>();
  const Shape& qkv = call.inputs[0].shape;
  TS_CHECK(attrs.heads.head_dim <= kMostHeadDim,
           "[cached_attention] heads of {} are not computed on cuda, expected up to {}", attrs.heads.head_dim,
           kMostHeadDim);
  check_grid("cached_attention", qkv[0], attrs.heads.heads);
  const CacheShape shape{static_cast<int>(qkv[1]),
                         static_cast<int>(call.inputs[1].shape[3]),
                         static_cast<int>(attrs.heads.heads),
                         static_cast<int>(attrs.heads.kv_heads),
                         static_cast<int>(attrs.heads.head_dim),
                         static_cast<float>(attrs.scale)};
  const auto grid = [&](int heads) {
    return dim3(static_cast<unsigned>(shape.tokens), static_cast<unsigned>(heads),
                static_cast<unsigned>(qkv[0]));
  };
  const auto* const first = data<std::int32_t>(call.inputs[3]);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* const tokens = data<T>(call.inputs[0]);
    T *const keys = data<T>(call.outputs[1]), *const values = data<T>(call.outputs[2]);
    append<<<grid(shape.kv_heads), row_threads(shape.head_dim, 1), 0, context.stream>>>(shape, tokens, first,
                                                                                        keys, values);
    attend_to_cache<<<grid(shape.heads), kThreads, 0, context.stream>>>(shape, tokens, first, keys, values,
                                                                        data<T>(call.outputs[0]));
  });
}

}  // namespace tessera::cuda
