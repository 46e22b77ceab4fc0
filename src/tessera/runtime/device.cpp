#include "tessera/runtime/device.h"

#include "tessera/comm/device_communicator.h"

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

std::span<std::byte> Device::message_bytes(const TensorView& tensor) {
  const auto num_bytes = static_cast<std::size_t>(tensor.num_bytes());
  if (host_can_read()) return {static_cast<std::byte*>(tensor.data), num_bytes};
  if (message_.size() < num_bytes) message_.resize(num_bytes);
  return std::span(message_).first(num_bytes);
}

void Device::send(const TensorView& from, const RankGroups& ranks, int to, int tag) {
  const std::span<std::byte> bytes = message_bytes(from);
  if (!host_can_read()) download(bytes, static_cast<const std::byte*>(from.data));
  ranks.group(Group::pp).send(bytes.data(), std::ssize(bytes), to, tag);
}

void Device::receive(const TensorView& to, const RankGroups& ranks, int from, int tag) {
  const std::span<std::byte> bytes = message_bytes(to);
  ranks.group(Group::pp).receive(bytes.data(), std::ssize(bytes), from, tag);
  if (!host_can_read()) upload(static_cast<std::byte*>(to.data), bytes);
}

void Device::mark(std::size_t moment) {
  if (moments_.size() <= moment) moments_.resize(moment + 1);
  moments_[moment] = std::chrono::steady_clock::now();
}

double Device::seconds_between(std::size_t from, std::size_t to) {
  return std::chrono::duration<double>(moments_[to] - moments_[from]).count();
}

}  // namespace tessera
