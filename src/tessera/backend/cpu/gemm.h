// gemm: C = alpha * op(A) * op(B) + beta * C + bias on row-major matrices, over the threads of a pool.
//
// The CPU kernels of linear layers, of the loss and of their gradients call it. It is our own packed
// product instead of a BLAS: Bf16 operands widen while they are packed, bias and conversion ride on the
// last store, and all threads share one packed copy of B. On two threads it is no slower than
// tiles of OpenBLAS on any training shape; oneDNN's sgemm is level with it on average, ahead on some shapes
// and behind on others, but widens nothing and brings an OpenMP pool (docs/performance.md).
// Every element of C is summed over k in one order that depends on K alone: the bits are the same for any
// number of threads, and for any M and N around the element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/thread_pool.h"

namespace tessera::cpu {

struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// A row-major matrix; element (i, j) of a transposed one is data[j * ld + i].
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
};

// A and B are float or Bf16 and C float or Bf16, or all three are double. Sums are kept in float (double)
// over all of K. C is never transposed; with a Bf16 C, beta is 0 or 1.
template <class A, class B, class C>
struct Gemm {
  GemmShape shape;
  Matrix<const A> a;        // op(a) is [m, k]
  Matrix<const B> b;        // op(b) is [k, n]
  Matrix<C> c;              // [m, n]
  const B* bias = nullptr;  // [n], added to every row; none if null
  double alpha = 1;
  double beta = 0;  // 0: what C holds is not read
};

// Upper bound over all operand types whose C is `c_dtype`.
std::int64_t gemm_workspace_bytes(const GemmShape& shape, DType c_dtype, int num_threads);

template <class A, class B, class C>
void gemm(ThreadPool& pool, const Gemm<A, B, C>& product, std::span<std::byte> workspace);

}  // namespace tessera::cpu
