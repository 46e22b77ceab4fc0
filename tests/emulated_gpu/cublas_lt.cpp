// In the place of backend/cuda/cublas_lt.cpp: cuBLASLt's functions for an emulated GPU, as far as GemmPlans
// uses them. Every product has two algorithms, which give the same.
#include "tessera/backend/cuda/cublas_lt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "emulated_gpu/stream.h"
#include "tessera/base/bf16.h"
#include "tessera/base/error.h"

// What cuBLASLt's handles point to.
struct cublasLtContext {};

namespace tessera::cuda {
namespace {

struct Description {
  std::int32_t transposed_a = CUBLAS_OP_N, transposed_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
};

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0, stride = 0;
  std::int32_t batch = 1;
};

struct Preference {
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

template <class T>
T& as(void* opaque) {
  return *static_cast<T*>(opaque);
}
template <class T>
void set(T& to, const void* value, std::size_t bytes) {
  TS_ASSERT(bytes == sizeof(T));
  std::memcpy(&to, value, bytes);
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t version() {
  return CUBLAS_VERSION;
}

cublasStatus_t desc_create(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_destroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_set(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, std::size_t bytes) {
  auto& d = as<Description>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(d.transposed_a, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(d.transposed_b, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(d.epilogue, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(d.bias, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(d.aux, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(d.aux_ld, value, bytes), CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t layout_create(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                             std::uint64_t columns, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{.type = type, .rows = rows, .columns = columns, .ld = ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_set(cublasLtMatrixLayout_t opaque, cublasLtMatrixLayoutAttribute_t attribute,
                          const void* value, std::size_t bytes) {
  auto& layout = as<Layout>(opaque);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout.batch, value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout.stride, value, bytes), CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t preference_create(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t opaque,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              std::size_t bytes) {
  auto& alignments = as<Preference>(opaque).alignments;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(alignments[0], value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(alignments[1], value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(alignments[2], value, bytes), CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(alignments[3], value, bytes), CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_SUCCESS;
  }
}

// bf16 whose columns do not begin at multiples of 4 bytes is not computed, nor with an epilogue that keeps
// its argument where they do not begin at multiples of 16.
bool computes(const Description& d, std::initializer_list<const Layout*> layouts) {
  const bool keeps = d.epilogue != CUBLASLT_EPILOGUE_DEFAULT && d.epilogue != CUBLASLT_EPILOGUE_BIAS;
  for (const Layout* layout : layouts) {
    if (layout->type == CUDA_R_16BF && layout->ld % (keeps ? 8 : 2) != 0) return false;
  }
  return true;
}

cublasStatus_t algo_get_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                  cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
                                  cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  bool aligned = true;
  for (const std::uint32_t bytes : as<Preference>(preference).alignments) aligned = aligned && bytes >= 4;
  if (!aligned || !computes(as<Description>(description), {&as<Layout>(a), &as<Layout>(b), &as<Layout>(d)}))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < std::min(wanted, 2); ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<std::uint64_t>(7 + i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    ++*found;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t algo_check(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                          const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 0;
  return algorithm->data[0] == 7 || algorithm->data[0] == 8 ? CUBLAS_STATUS_SUCCESS
                                                            : CUBLAS_STATUS_NOT_SUPPORTED;
}

float read(const void* data, cudaDataType_t type, std::int64_t at) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[at]
                            : static_cast<float>(static_cast<const Bf16*>(data)[at]);
}
void write(void* data, cudaDataType_t type, std::int64_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<Bf16*>(data)[at] = Bf16(value);
  }
}

constexpr float kRootOfTwoByPi = 0.7978845608f, kCubic = 0.044715f;
float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(kRootOfTwoByPi * (x + kCubic * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(kRootOfTwoByPi * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRootOfTwoByPi * (1 + 3 * kCubic * x * x);
}

struct Multiplication {
  Description description;
  Layout a, b, d;
  const void *a_data, *b_data;
  void* d_data;
  float beta;

  // The matrix, or the transposed one, as floats; columns lie one after the other.
  static std::vector<float> whole(const void* data, const Layout& layout, std::int64_t first,
                                  bool transposed) {
    const auto rows = static_cast<std::int64_t>(transposed ? layout.columns : layout.rows),
               columns = static_cast<std::int64_t>(transposed ? layout.rows : layout.columns);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        values[static_cast<std::size_t>(j * rows + i)] =
            read(data, layout.type, first + (transposed ? i * layout.ld + j : j * layout.ld + i));
      }
    }
    return values;
  }

  void run() const {
    for (std::int64_t n = 0; n < d.batch; ++n) {
      const std::vector<float> left = whole(a_data, a, n * a.stride, description.transposed_a == CUBLAS_OP_T),
                               right =
                                   whole(b_data, b, n * b.stride, description.transposed_b == CUBLAS_OP_T);
      const std::size_t rows = d.rows, depth = left.size() / rows;
      std::vector<float> sums(rows);
      for (std::size_t j = 0; j < d.columns; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (std::size_t k = 0; k < depth; ++k) {
          const float factor = right[j * depth + k];
          for (std::size_t i = 0; i < rows; ++i) sums[i] += left[k * rows + i] * factor;
        }
        for (std::size_t i = 0; i < rows; ++i) finish(n, i, j, sums[i]);
      }
    }
  }

  void finish(std::int64_t n, std::size_t i, std::size_t j, float value) const {
    const std::int64_t at = n * d.stride + static_cast<std::int64_t>(j) * d.ld + static_cast<std::int64_t>(i),
                       aux_at =
                           static_cast<std::int64_t>(j) * description.aux_ld + static_cast<std::int64_t>(i);
    if (beta != 0) value += beta * read(d_data, d.type, at);
    const cublasLtEpilogue_t epilogue = description.epilogue;
    if (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
        epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      value += read(description.bias, a.type, static_cast<std::int64_t>(i));
    }
    if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
      write(description.aux, d.type, aux_at, value);
    if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
      value *= gelu_slope(read(description.aux, d.type, aux_at));
    } else if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS) {
      value = gelu(value);
    }
    write(d_data, d.type, at, value);
  }
};

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                      const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                      cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*,
                      std::size_t, cudaStream_t stream) {
  TS_ASSERT(*static_cast<const float*>(alpha) == 1 && c == d && algorithm->data[0] >= 7);
  const Multiplication work{.description = as<Description>(description),
                            .a = as<Layout>(a_layout),
                            .b = as<Layout>(b_layout),
                            .d = as<Layout>(d_layout),
                            .a_data = a,
                            .b_data = b,
                            .d_data = d,
                            .beta = *static_cast<const float*>(beta)};
  const bool fits = computes(work.description, {&work.a, &work.b, &work.d});
  if (!fits || emulated::enqueue(stream, [work] { work.run(); }) != cudaSuccess)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

CublasLt load_cublas_lt() {
  return {.create = create,
          .destroy = destroy,
          .matmul = matmul,
          .version = version,
          .algo_get_heuristic = algo_get_heuristic,
          .algo_check = algo_check,
          .desc_create = desc_create,
          .desc_destroy = desc_destroy,
          .desc_set = desc_set,
          .layout_create = layout_create,
          .layout_destroy = layout_destroy,
          .layout_set = layout_set,
          .preference_create = preference_create,
          .preference_destroy = preference_destroy,
          .preference_set = preference_set};
}

void check_cublas(cublasStatus_t status, const char* what) {
  TS_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasLt: {}: status {}", what, static_cast<int>(status));
}

}  // namespace tessera::cuda
