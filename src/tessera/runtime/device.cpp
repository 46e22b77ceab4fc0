#include "tessera/runtime/device.h"

#include "tessera/comm/device_communicator.h"
#include "tessera/runtime/host_tensor.h"

namespace tessera {

bool Device::fuses(const Graph&, const Node&, const Node&) const {
  return false;
}

void Device::run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second) {
  run(first_op, first);
  run(second_op, second);
}

std::unique_ptr<DeviceLink> Device::link(Communicator&) {
  return nullptr;
}

void Device::send(const TensorView& from, const RankGroups& ranks, int to, int tag) {
  const HostTensor host(*this, from);
  ranks.group(Group::pp).send(host.view().data, host.view().num_bytes(), to, tag);
}

void Device::receive(const TensorView& to, const RankGroups& ranks, int from, int tag) {
  HostTensor host(*this, to);
  ranks.group(Group::pp).receive(host.view().data, host.view().num_bytes(), from, tag);
  host.write_back();
}

void Device::mark(std::size_t moment) {
  if (moments_.size() <= moment) moments_.resize(moment + 1);
  moments_[moment] = std::chrono::steady_clock::now();
}

double Device::seconds_between(std::size_t from, std::size_t to) {
  return std::chrono::duration<double>(moments_[to] - moments_[from]).count();
}

}  // namespace tessera
