// NcclLibrary: the functions of NVIDIA's library for collectives between GPUs, found when the program runs.
//
// Neither linked nor built against: a program runs on machines without NCCL, and is built on machines without
// its header. What is declared here is NCCL 2's binary interface; nccl_header_check.cpp compares it with the
// header where there is one. Opened by backend/cuda when ranks have a GPU each; used by NcclCommunicator.
#pragma once

#include <cstddef>
#include <optional>

#include "tessera/comm/device_communicator.h"

struct ncclComm;

namespace tessera {

struct NcclId {
  char internal[128];
};

// NCCL's numbers.
inline constexpr int kNcclSuccess = 0, kNcclInProgress = 7;
inline constexpr int kNcclInt8 = 0, kNcclInt32 = 2, kNcclFloat32 = 7, kNcclFloat64 = 8, kNcclBfloat16 = 9;
inline constexpr int kNcclSum = 0;

struct NcclLibrary {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*comm_init_rank)(ncclComm** comm, int num_ranks, NcclId id, int rank) = nullptr;
  int (*comm_destroy)(ncclComm* comm) = nullptr;
  int (*comm_abort)(ncclComm* comm) = nullptr;
  int (*comm_get_async_error)(ncclComm* comm, int* result) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
  const char* (*get_last_error)(ncclComm* comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int dtype, int reduction, ncclComm* comm,
                    DeviceStream stream) = nullptr;
  int (*reduce)(const void* from, void* to, std::size_t count, int dtype, int reduction, int root,
                ncclComm* comm, DeviceStream stream) = nullptr;
  int (*broadcast)(const void* from, void* to, std::size_t count, int dtype, int root, ncclComm* comm,
                   DeviceStream stream) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t part_count, int dtype, ncclComm* comm,
                    DeviceStream stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, std::size_t part_count, int dtype, int reduction,
                        ncclComm* comm, DeviceStream stream) = nullptr;
};

// From where the dynamic linker looks, else from the toolkit of the build. Nothing: there is none. It is
// never unloaded.
std::optional<NcclLibrary> load_nccl();

}  // namespace tessera
