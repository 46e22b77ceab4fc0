#include "tessera/backend/cuda/cublas_lt.h"

#include <string>

#include "tessera/base/error.h"
#include "tessera/base/shared_library.h"

namespace tessera::cuda {

CublasLt load_cublas_lt() {
  const SharedLibrary library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), TESSERA_CUDA_LIBRARY_DIR);
  TS_CHECK(library.found(),
           "device: cuda needs {}, which was not found: {} (its folder may be given in LD_LIBRARY_PATH)",
           library.name(), library.why_not_found());
  CublasLt lt;
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtGetVersion", lt.version);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.algo_get_heuristic);
  library.find("cublasLtMatmulAlgoCheck", lt.algo_check);
  library.find("cublasLtMatmulDescCreate", lt.desc_create);
  library.find("cublasLtMatmulDescDestroy", lt.desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", lt.desc_set);
  library.find("cublasLtMatrixLayoutCreate", lt.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  library.find("cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  library.find("cublasLtMatmulPreferenceCreate", lt.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  return lt;
}

void check_cublas(cublasStatus_t status, const char* what) {
  TS_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasLt: {}: status {}", what, static_cast<int>(status));
}

}  // namespace tessera::cuda
