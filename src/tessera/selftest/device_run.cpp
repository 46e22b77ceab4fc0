#include "tessera/selftest/device_run.h"

#include <algorithm>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kPoison{0xff};  // all bits set is a NaN in every floating type
// A workspace may be large, and only its beginning needs to be seen to be written before it is read.
constexpr std::size_t kPoisonBytes = std::size_t{64} << 20;

}  // namespace

DeviceRun::DeviceRun(Device& device, const Graph& graph, const Node& node, const RankGroups* ranks,
                     bool in_place)
    : device_(device), node_(node), ranks_(ranks), overwritten_(node.inputs.size(), false) {
  for (ValueId v : node.inputs) {
    input_buffers_.push_back(make_buffer(graph.type(v).num_bytes()));
    inputs_.push_back({input_buffers_.back().memory->data(), graph.type(v).dtype, graph.type(v).shape});
  }
  std::vector<std::size_t> lies_on(node.outputs.size(), node.inputs.size());
  for (const InPlace& pair : in_place_pairs(node)) {
    if (!pair.always && !in_place) continue;
    lies_on[pair.output] = pair.input;
    overwritten_[pair.input] = true;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueType& type = graph.type(node.outputs[i]);
    const bool own = lies_on[i] == node.inputs.size();
    output_buffers_.push_back(own ? make_buffer(type.num_bytes()) : Buffer{});
    outputs_.push_back(
        {own ? output_buffers_.back().memory->data() : static_cast<std::byte*>(inputs_[lies_on[i]].data),
         type.dtype, type.shape});
  }
  if (const std::int64_t bytes = device.workspace_bytes(graph, node); bytes > 0)
    workspace_ = make_buffer(bytes);
}

DeviceRun::Buffer DeviceRun::make_buffer(std::int64_t num_bytes) {
  Buffer buffer{device_.allocate(num_bytes + static_cast<std::int64_t>(kGuardBytes)),
                static_cast<std::size_t>(num_bytes)};
  device_.upload(buffer.memory->data() + num_bytes, Bytes(kGuardBytes, kGuard));
  return buffer;
}

void DeviceRun::poison(const Buffer& buffer) {
  if (buffer.memory)
    device_.upload(buffer.memory->data(), Bytes(std::min(buffer.size, kPoisonBytes), kPoison));
}

Bytes DeviceRun::read(const std::byte* from, std::size_t size) const {
  Bytes bytes(size);
  device_.download(bytes, from);
  return bytes;
}

void DeviceRun::fill(std::span<const Bytes> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) device_.upload(input_buffers_[i].memory->data(), inputs[i]);
  for (const Buffer& buffer : output_buffers_) poison(buffer);
  poison(workspace_);
}

void DeviceRun::run(bool starts_sums) {
  const std::span<std::byte> workspace =
      workspace_.memory ? std::span(workspace_.memory->data(), workspace_.size) : std::span<std::byte>{};
  device_.run(node_.op, {inputs_, outputs_, &node_.attrs, workspace, ranks_, starts_sums});
}

std::vector<Bytes> DeviceRun::outputs() const {
  std::vector<Bytes> all;
  for (const TensorView& view : outputs_) {
    all.push_back(read(static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())));
  }
  return all;
}

void DeviceRun::wait() const {
  if (!outputs_.empty()) read(static_cast<const std::byte*>(outputs_[0].data), 1);
}

std::string DeviceRun::stray_writes(std::span<const Bytes> inputs) const {
  const Bytes guard(kGuardBytes, kGuard);
  const auto broken = [&](const Buffer& buffer) {
    return buffer.memory && read(buffer.memory->data() + buffer.size, kGuardBytes) != guard;
  };
  for (std::size_t i = 0; i < input_buffers_.size(); ++i) {
    if (broken(input_buffers_[i])) return fmt::format("wrote behind input {}", i);
    if (!overwritten_[i] && read(input_buffers_[i].memory->data(), inputs[i].size()) != inputs[i]) {
      return fmt::format("changed input {}", i);
    }
  }
  for (std::size_t i = 0; i < output_buffers_.size(); ++i) {
    if (broken(output_buffers_[i])) return fmt::format("wrote behind output {}", i);
  }
  return broken(workspace_) ? "wrote behind the workspace" : "";
}

}  // namespace tessera
