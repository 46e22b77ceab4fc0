// Compares nccl_library.h with NCCL's own header, where there is one.
#include "tessera/comm/nccl/nccl_library.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>

namespace tessera {
namespace {

static_assert(ncclSuccess == kNcclSuccess && ncclInProgress == kNcclInProgress);
static_assert(ncclInt8 == kNcclInt8 && ncclInt32 == kNcclInt32 && ncclFloat32 == kNcclFloat32);
static_assert(ncclFloat64 == kNcclFloat64 && ncclBfloat16 == kNcclBfloat16 && ncclSum == kNcclSum);
static_assert(sizeof(ncclUniqueId) == sizeof(NcclId) && alignof(ncclUniqueId) == alignof(NcclId));
static_assert(std::is_same_v<cudaStream_t, DeviceStream> && std::is_same_v<ncclComm_t, ncclComm*>);

// An enum of C is passed as the integer that holds it.
template <class T>
struct PassedAs {
  using Type = T;
};
template <>
struct PassedAs<ncclDataType_t> {
  using Type = int;
};
template <>
struct PassedAs<ncclRedOp_t> {
  using Type = int;
};
template <>
struct PassedAs<ncclResult_t> {
  using Type = int;
};
template <>
struct PassedAs<ncclResult_t*> {
  using Type = int*;
};
template <>
struct PassedAs<ncclUniqueId> {
  using Type = NcclId;
};
template <>
struct PassedAs<ncclUniqueId*> {
  using Type = NcclId*;
};

template <class Theirs, class Ours>
struct SameCall : std::false_type {};
template <class R, class... A, class Ours>
struct SameCall<R (*)(A...), Ours>
    : std::is_same<typename PassedAs<R>::Type (*)(typename PassedAs<A>::Type...), Ours> {};

static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int));
static_assert(sizeof(ncclResult_t) == sizeof(int));
static_assert(SameCall<decltype(&ncclGetVersion), decltype(NcclLibrary::get_version)>::value);
static_assert(SameCall<decltype(&ncclGetUniqueId), decltype(NcclLibrary::get_unique_id)>::value);
static_assert(SameCall<decltype(&ncclCommInitRank), decltype(NcclLibrary::comm_init_rank)>::value);
static_assert(SameCall<decltype(&ncclCommDestroy), decltype(NcclLibrary::comm_destroy)>::value);
static_assert(SameCall<decltype(&ncclCommAbort), decltype(NcclLibrary::comm_abort)>::value);
static_assert(SameCall<decltype(&ncclCommGetAsyncError), decltype(NcclLibrary::comm_get_async_error)>::value);
static_assert(SameCall<decltype(&ncclGetErrorString), decltype(NcclLibrary::get_error_string)>::value);
static_assert(SameCall<decltype(&ncclGetLastError), decltype(NcclLibrary::get_last_error)>::value);
static_assert(SameCall<decltype(&ncclGroupStart), decltype(NcclLibrary::group_start)>::value);
static_assert(SameCall<decltype(&ncclGroupEnd), decltype(NcclLibrary::group_end)>::value);
static_assert(SameCall<decltype(&ncclAllReduce), decltype(NcclLibrary::all_reduce)>::value);
static_assert(SameCall<decltype(&ncclReduce), decltype(NcclLibrary::reduce)>::value);
static_assert(SameCall<decltype(&ncclBroadcast), decltype(NcclLibrary::broadcast)>::value);
static_assert(SameCall<decltype(&ncclAllGather), decltype(NcclLibrary::all_gather)>::value);
static_assert(SameCall<decltype(&ncclReduceScatter), decltype(NcclLibrary::reduce_scatter)>::value);

}  // namespace
}  // namespace tessera
#endif
