// Where the heads of a packed tensor lie, for attention's kernels.
#pragma once

#include "tessera/backend/cuda/attention.h"

namespace tessera::cuda {

// First element of a head of sequence `b`; rows of a head are qkv_width (out_width) apart.
template <class T>
__device__ T* query_head(T* qkv, const AttentionShape& shape, int b, int h) {
  return qkv + std::int64_t{b} * shape.seq * shape.qkv_width() + h * shape.head_dim;
}
template <class T>
__device__ T* key_head(T* qkv, const AttentionShape& shape, int b, int kv) {
  return query_head(qkv, shape, b, shape.heads + kv);
}
template <class T>
__device__ T* value_head(T* qkv, const AttentionShape& shape, int b, int kv) {
  return query_head(qkv, shape, b, shape.heads + shape.kv_heads + kv);
}
template <class T>
__device__ T* out_head(T* out, const AttentionShape& shape, int b, int h) {
  return out + std::int64_t{b} * shape.seq * shape.out_width() + h * shape.head_dim;
}
// Of lse and delta.
template <class T>
__device__ T* row_numbers(T* numbers, const AttentionShape& shape, int b, int h) {
  return numbers + (std::int64_t{b} * shape.heads + h) * shape.seq;
}

}  // namespace tessera::cuda
