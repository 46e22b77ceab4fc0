#include "tessera/backend/cuda/rank_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tessera/backend/cuda/peer_communicator.h"
#include "tessera/backend/cuda/peer_messages.h"
#include "tessera/backend/cuda/sum_of_ranks.h"
#include "tessera/comm/host_name.h"
#include "tessera/comm/nccl/nccl_communicator.h"

namespace tessera::cuda {
namespace {

// Where a rank is, as all ranks see it.
struct RankPlace {
  std::int64_t host = 0, process = 0;
  std::array<char, 16> gpu{};  // its UUID
  std::int32_t ordinal = 0, reserved = 0;

  bool same_process(const RankPlace& other) const { return host == other.host && process == other.process; }
};

// Another in every process. Not its id, which is another's, too, where containers share a host's name.
std::int64_t process_number() {
  static const auto number = [] {
    std::random_device random;
    return static_cast<std::int64_t>(std::uint64_t{random()} << 32 | random());
  }();
  return number;
}

std::vector<RankPlace> places_of(Communicator& world, int ordinal) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal), "ask for the GPU's properties");
  RankPlace own{.host = host_name_hash(), .process = process_number(), .ordinal = ordinal};
  std::memcpy(own.gpu.data(), properties.uuid.bytes, own.gpu.size());
  std::vector<RankPlace> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, all.data(), {1, sizeof(own) / sizeof(std::int32_t)}, DType::i32);
  return all;
}

// The number of GPUs that the ranks have together.
std::size_t num_gpus(const std::vector<RankPlace>& places) {
  std::vector<std::array<char, 16>> gpus;
  for (const RankPlace& place : places) gpus.push_back(place.gpu);
  std::ranges::sort(gpus);
  return static_cast<std::size_t>(std::unique(gpus.begin(), gpus.end()) - gpus.begin());
}

bool in_one_process(const std::vector<RankPlace>& places) {
  return std::ranges::all_of(places, [&](const RankPlace& place) { return place.same_process(places[0]); });
}

bool open_peer(int ordinal, int peer) {
  int can = 0;
  check_cuda(cudaDeviceCanAccessPeer(&can, ordinal, peer), "ask for access to a peer");
  if (can == 0) return false;
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status != cudaSuccess) cudaGetLastError();  // the runtime remembers it as an error
  return status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled;
}

// From now on this rank's GPU reads and writes the memory of those of the others that it can. False: not all.
bool open_peers(const std::vector<RankPlace>& places, int ordinal) {
  bool all = true;
  for (const RankPlace& place : places) {
    if (place.ordinal != ordinal && !open_peer(ordinal, place.ordinal)) all = false;
  }
  return all;
}

bool all_agree(Communicator& world, bool own) {
  std::int32_t disagree = own ? 0 : 1;
  world.all_reduce(&disagree, 1, DType::i32, Reduction::max);
  return disagree == 0;
}

// A send of NCCL's waits for its receive, which a pipeline's may not. So a pipeline in one process copies its
// messages from GPU to GPU; any other's go through the host.
class NcclLink final : public DeviceLink {
 public:
  NcclLink(const NcclLibrary& nccl, int ordinal, std::string text)
      : DeviceLink(std::move(text)), nccl_(nccl), ordinal_(ordinal) {}
  std::unique_ptr<DeviceCommunicator> connect(Communicator& group) override {
    return std::make_unique<NcclCommunicator>(group, nccl_);
  }
  std::unique_ptr<DeviceMessages> connect_messages(Communicator& group) override {
    const std::vector<RankPlace> places = places_of(group, ordinal_);
    if (!in_one_process(places)) return nullptr;
    open_peers(places, ordinal_);  // which makes copies direct; others the driver takes through the host
    return std::make_unique<PeerMessages>(group);
  }

 private:
  NcclLibrary nccl_;
  int ordinal_;
};

class PeerLink final : public DeviceLink {
 public:
  using DeviceLink::DeviceLink;
  std::unique_ptr<DeviceCommunicator> connect(Communicator& group) override {
    return std::make_unique<PeerCommunicator>(group);
  }
  std::unique_ptr<DeviceMessages> connect_messages(Communicator& group) override {
    return std::make_unique<PeerMessages>(group);
  }
};

// Of ranks that neither NCCL nor their GPUs' memory connects.
std::string why_through_the_host(int num_ranks, bool one_process, bool shared) {
  if (one_process && num_ranks > kMostPeers)
    return fmt::format("more than {} ranks in a process", kMostPeers);
  const std::string no_nccl = shared ? fmt::format("{} share a GPU", one_process ? "ranks" : "processes")
                                     : "libnccl.so.2 could not be opened";
  return one_process ? no_nccl + ", and the GPUs do not read each other's memory" : no_nccl;
}

}  // namespace

std::unique_ptr<DeviceLink> make_rank_link(Communicator& world, int ordinal) {
  const std::vector<RankPlace> places = places_of(world, ordinal);
  const std::size_t gpus = num_gpus(places);
  const bool one_process = in_one_process(places);
  const std::string where = fmt::format("{} ranks on {} GPU{}", world.size(), gpus, gpus == 1 ? "" : "s");
  const bool can_peers =
      one_process && world.size() <= kMostPeers && all_agree(world, open_peers(places, ordinal));
  const auto through_gpu_memory = [&] {
    return std::make_unique<PeerLink>(where + " of one process, through GPU memory");
  };
  // A kernel of NCCL's waits on its GPU until the other ranks' have begun, and within one process what the
  // driver does for those meanwhile (loading a kernel, making a graph) may wait for that GPU: for ever.
  if (can_peers && world.size() > 1) return through_gpu_memory();
  const std::optional<NcclLibrary> nccl = load_nccl();
  const bool shared = gpus < places.size();
  const bool can_nccl = all_agree(world, nccl.has_value() && !shared);
  if (can_peers && !can_nccl) return through_gpu_memory();
  if (can_nccl) {
    return std::make_unique<NcclLink>(*nccl, ordinal,
                                      fmt::format("{}, by {}", where, nccl_version_text(*nccl)));
  }
  return std::make_unique<DeviceLink>(fmt::format("{}, through host memory ({})", where,
                                                  why_through_the_host(world.size(), one_process, shared)));
}

}  // namespace tessera::cuda
