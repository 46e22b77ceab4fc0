#include "tessera/backend/cuda/peak_flops.h"

#include <algorithm>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/gemm.h"
#include "tessera/backend/cuda/initial_values.h"
#include "tessera/backend/cuda/stopwatch.h"

namespace tessera::cuda {

double measured_peak_flops(Context& context) {
  constexpr std::int64_t kSize = 8192, kMatrix = kSize * kSize;
  constexpr int kRuns = 5;
  void* memory = nullptr;
  const std::size_t num_bytes = 3 * 2 * kMatrix + kGemmWorkspaceBytes;
  if (cudaMalloc(&memory, num_bytes) != cudaSuccess) {
    cudaGetLastError();  // forget it
    return 0;
  }
  auto* const matrices = static_cast<std::byte*>(memory);
  // Random numbers: a GPU computes with zeros faster, as it then needs less power.
  fill_normal(context, {matrices, DType::bf16, Shape{2 * kMatrix}}, {.seed = 1, .stream = 1});
  const Product product{.m = kSize,
                        .n = kSize,
                        .k = kSize,
                        .dtype = DType::bf16,
                        .c_dtype = DType::bf16,
                        .a = {matrices, kSize, false},
                        .b = {matrices + 2 * kMatrix, kSize, true},
                        .c = matrices + 4 * kMatrix,
                        .ldc = kSize};
  const cublasLtMatmulAlgo_t algorithm = context.gemms.candidates(product).front();
  Stopwatch stopwatch;
  for (int i = -1; i < kRuns; ++i) {
    context.gemms.run(product, algorithm, context.stream, {matrices + 6 * kMatrix, kGemmWorkspaceBytes});
    stopwatch.mark(static_cast<std::size_t>(i + 1), context.stream);
  }
  check_cuda(cudaStreamSynchronize(context.stream), "measure a product");
  double seconds = 1;
  for (std::size_t i = 0; i < kRuns; ++i) seconds = std::min(seconds, stopwatch.seconds_between(i, i + 1));
  check_cuda(cudaFree(memory), "free memory");
  return 2.0 * kSize * kSize * kSize / seconds;
}

}  // namespace tessera::cuda
