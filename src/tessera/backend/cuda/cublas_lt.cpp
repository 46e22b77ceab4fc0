#include "tessera/backend/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <string>

#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

std::string library_name() {
  return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
}

void* open_library() {
  const std::string name = library_name();
  if (void* const found = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string error = ::dlerror();
  const std::string in_toolkit = std::string(TESSERA_CUDA_LIBRARY_DIR) + "/" + name;
  if (void* const found = ::dlopen(in_toolkit.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  fail("device: cuda needs {}, which was not found: {} (its folder may be given in LD_LIBRARY_PATH)", name,
       error);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  TS_CHECK(function != nullptr, "{} has no function {}", library_name(), name);
}

}  // namespace

CublasLt load_cublas_lt() {
  void* const library = open_library();
  CublasLt lt;
  find(library, "cublasLtCreate", lt.create);
  find(library, "cublasLtDestroy", lt.destroy);
  find(library, "cublasLtMatmul", lt.matmul);
  find(library, "cublasLtGetVersion", lt.version);
  find(library, "cublasLtMatmulAlgoGetHeuristic", lt.algo_get_heuristic);
  find(library, "cublasLtMatmulAlgoCheck", lt.algo_check);
  find(library, "cublasLtMatmulDescCreate", lt.desc_create);
  find(library, "cublasLtMatmulDescDestroy", lt.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", lt.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", lt.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", lt.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  return lt;
}

void check_cublas(cublasStatus_t status, const char* what) {
  TS_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasLt: {}: status {}", what, static_cast<int>(status));
}

}  // namespace tessera::cuda
