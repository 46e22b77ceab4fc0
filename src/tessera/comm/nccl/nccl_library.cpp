#include "tessera/comm/nccl/nccl_library.h"

#include "tessera/base/shared_library.h"

namespace tessera {

std::optional<NcclLibrary> load_nccl() {
  const SharedLibrary library("libnccl.so.2", TESSERA_CUDA_LIBRARY_DIR);
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

}  // namespace tessera
