#include "tessera/comm/nccl/nccl_library.h"

#include <dlfcn.h>

namespace tessera {
namespace {

constexpr const char* kName = "libnccl.so.2";

void* open_library() {
  if (void* const found = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL)) return found;
#ifdef TESSERA_CUDA_LIBRARY_DIR
  return ::dlopen((std::string(TESSERA_CUDA_LIBRARY_DIR) + "/" + kName).c_str(), RTLD_NOW | RTLD_LOCAL);
#else
  return nullptr;
#endif
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  TS_CHECK(function != nullptr, "{} has no function {}", kName, name);
}

}  // namespace

std::optional<NcclLibrary> load_nccl() {
  void* const library = open_library();
  if (library == nullptr) return {};
  NcclLibrary nccl;
  find(library, "ncclGetVersion", nccl.get_version);
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRank", nccl.comm_init_rank);
  find(library, "ncclCommDestroy", nccl.comm_destroy);
  find(library, "ncclCommAbort", nccl.comm_abort);
  find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find(library, "ncclGetErrorString", nccl.get_error_string);
  find(library, "ncclGetLastError", nccl.get_last_error);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclReduce", nccl.reduce);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  return nccl;
}

std::string nccl_version_text(const NcclLibrary& nccl) {
  int version = 0;
  TS_CHECK(nccl.get_version(&version) == kNcclSuccess, "{} does not say its version", kName);
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tessera
