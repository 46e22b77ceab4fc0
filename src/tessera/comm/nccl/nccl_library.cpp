#include "tessera/comm/nccl/nccl_library.h"

#include "tessera/base/error.h"
#include "tessera/base/shared_library.h"

namespace tessera {
namespace {

constexpr const char* kName = "libnccl.so.2";

}  // namespace

std::optional<NcclLibrary> load_nccl() {
  const SharedLibrary library(kName, TESSERA_CUDA_LIBRARY_DIR);
  if (!library.found()) return {};
  NcclLibrary nccl;
  library.find("ncclGetVersion", nccl.get_version);
  library.find("ncclGetUniqueId", nccl.get_unique_id);
  library.find("ncclCommInitRank", nccl.comm_init_rank);
  library.find("ncclCommDestroy", nccl.comm_destroy);
  library.find("ncclCommAbort", nccl.comm_abort);
  library.find("ncclCommGetAsyncError", nccl.comm_get_async_error);
  library.find("ncclGetErrorString", nccl.get_error_string);
  library.find("ncclGetLastError", nccl.get_last_error);
  library.find("ncclGroupStart", nccl.group_start);
  library.find("ncclGroupEnd", nccl.group_end);
  library.find("ncclAllReduce", nccl.all_reduce);
  library.find("ncclReduce", nccl.reduce);
  library.find("ncclBroadcast", nccl.broadcast);
  library.find("ncclAllGather", nccl.all_gather);
  library.find("ncclReduceScatter", nccl.reduce_scatter);
  return nccl;
}

std::string nccl_version_text(const NcclLibrary& nccl) {
  int version = 0;
  TS_CHECK(nccl.get_version(&version) == kNcclSuccess, "{} does not say its version", kName);
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tessera
