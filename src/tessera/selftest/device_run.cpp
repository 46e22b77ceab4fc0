#include "tessera/selftest/device_run.h"

#include <algorithm>
#include <cstring>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kPoison{0xff};  // all bits set is a NaN in every floating type
// A workspace may be large, and only its beginning needs to be seen to be written before it is read.
constexpr std::size_t kPoisonBytes = std::size_t{64} << 20;
// Memory is poisoned and compared in pieces that a cache holds: fresh memory for all of it would take longer
// than most kernels.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

bool is_input(const Graph& graph, ValueId value) {
  return graph.value(value).producer == kNoNode;
}

bool is_output(const Graph& graph, ValueId value) {
  return std::ranges::find(graph.outputs(), value, &Output::value) != graph.outputs().end();
}

// Whether the pair's output lies on its input: not on one that is compared itself.
bool lies_on_input(const Graph& graph, const Node& node, const InPlace& pair, bool in_place) {
  return pair.always || (in_place && !is_output(graph, node.inputs[pair.input]));
}

}  // namespace

bool differs_in_place(const Graph& graph) {
  const Node& last = graph.nodes().back();
  return std::ranges::any_of(in_place_pairs(last), [&](const InPlace& pair) {
    return lies_on_input(graph, last, pair, true) && !lies_on_input(graph, last, pair, false);
  });
}

DeviceRun::DeviceRun(Device& device, const Graph& graph, const RankGroups* ranks, bool in_place)
    : device_(device), graph_(graph), ranks_(ranks) {
  const std::span<const Node> nodes = graph.nodes();
  TS_ASSERT(nodes.size() == 1 || nodes.size() == 2);
  for (ValueId v = 0; v < graph.num_values() && is_input(graph, v); ++v) add_value(v, kNoValue);
  for (const Node& node : nodes) bind(node, in_place && &node == &nodes.back());
  fused_ = nodes.size() == 2 && device.fuses(graph, nodes[0], nodes[1]);
}

void DeviceRun::add_value(ValueId value, ValueId lies_on) {
  TS_ASSERT(static_cast<std::size_t>(value) == views_.size());
  const ValueType& type = graph_.type(value);
  const bool own = lies_on == kNoValue;
  buffers_.push_back(own ? make_buffer(type.num_bytes()) : Buffer{});
  void* data = own ? buffers_.back().memory->data() : views_[static_cast<std::size_t>(lies_on)].data;
  views_.push_back({data, type.dtype, type.shape});
  overwritten_.push_back(false);
  if (!own) overwritten_[static_cast<std::size_t>(lies_on)] = true;
}

void DeviceRun::bind(const Node& node, bool in_place) {
  std::vector<ValueId> lies_on(node.outputs.size(), kNoValue);
  for (const InPlace& pair : in_place_pairs(node)) {
    if (lies_on_input(graph_, node, pair, in_place)) lies_on[pair.output] = node.inputs[pair.input];
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) add_value(node.outputs[i], lies_on[i]);
  BoundNode bound;
  for (ValueId v : node.inputs) bound.inputs.push_back(views_[static_cast<std::size_t>(v)]);
  for (ValueId v : node.outputs) bound.outputs.push_back(views_[static_cast<std::size_t>(v)]);
  if (const std::int64_t bytes = device_.workspace_bytes(graph_, node); bytes > 0)
    bound.workspace = make_buffer(bytes);
  nodes_.push_back(std::move(bound));
}

DeviceRun::Buffer DeviceRun::make_buffer(std::int64_t num_bytes) {
  Buffer buffer{device_.allocate(num_bytes + static_cast<std::int64_t>(kGuardBytes)),
                static_cast<std::size_t>(num_bytes)};
  device_.upload(buffer.memory->data() + num_bytes, Bytes(kGuardBytes, kGuard));
  return buffer;
}

void DeviceRun::poison(const Buffer& buffer) {
  static const Bytes kPiece(kPieceBytes, kPoison);
  if (!buffer.memory) return;
  const std::size_t size = std::min(buffer.size, kPoisonBytes);
  for (std::size_t at = 0; at < size; at += kPieceBytes)
    device_.upload(buffer.memory->data() + at, std::span(kPiece).first(std::min(kPieceBytes, size - at)));
}

Bytes DeviceRun::read(const std::byte* from, std::size_t size) const {
  Bytes bytes(size);
  device_.download(bytes, from);
  return bytes;
}

bool DeviceRun::holds(const std::byte* at, std::span<const std::byte> wanted) const {
  Bytes piece(std::min(kPieceBytes, wanted.size()));
  for (; !wanted.empty(); wanted = wanted.subspan(piece.size()), at += piece.size()) {
    piece.resize(std::min(piece.size(), wanted.size()));
    device_.download(piece, at);
    if (std::memcmp(piece.data(), wanted.data(), piece.size()) != 0) return false;
  }
  return true;
}

void DeviceRun::fill(std::span<const Bytes> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!overwritten_[i]) device_.upload(buffers_[i].memory->data(), inputs[i]);
  }
  refill(inputs);
}

void DeviceRun::refill(std::span<const Bytes> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (overwritten_[i]) device_.upload(buffers_[i].memory->data(), inputs[i]);
  }
  for (std::size_t i = inputs.size(); i < buffers_.size(); ++i) poison(buffers_[i]);
  for (const BoundNode& node : nodes_) poison(node.workspace);
}

KernelCall DeviceRun::call_of(std::size_t node, bool starts_sums) const {
  const BoundNode& bound = nodes_[node];
  const Buffer& workspace = bound.workspace;
  const Node& called = graph_.nodes()[node];
  return {bound.inputs,
          bound.outputs,
          &called.attrs,
          workspace.memory ? std::span(workspace.memory->data(), workspace.size) : std::span<std::byte>{},
          ranks_,
          starts_sums && device_.can_start_sums(called.op)};
}

void DeviceRun::run(bool starts_sums) {
  const std::span<const Node> nodes = graph_.nodes();
  if (fused_) {
    return device_.run_fused(nodes[0].op, call_of(0, starts_sums), nodes[1].op, call_of(1, starts_sums));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) device_.run(nodes[i].op, call_of(i, starts_sums));
}

std::vector<Bytes> DeviceRun::outputs() const {
  std::vector<Bytes> all;
  for (const Output& output : graph_.outputs()) {
    const TensorView& view = views_[static_cast<std::size_t>(output.value)];
    all.push_back(read(static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())));
  }
  return all;
}

bool DeviceRun::gives(std::span<const Bytes> outputs) const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorView& view = views_[static_cast<std::size_t>(graph_.outputs()[i].value)];
    if (!holds(static_cast<const std::byte*>(view.data), outputs[i])) return false;
  }
  return true;
}

void DeviceRun::wait() const {
  read(static_cast<const std::byte*>(views_.back().data), 1);
}

std::string DeviceRun::stray_writes(std::span<const Bytes> inputs) const {
  const Bytes guard(kGuardBytes, kGuard);
  const auto broken = [&](const Buffer& buffer) {
    return buffer.memory && !holds(buffer.memory->data() + buffer.size, guard);
  };
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const bool input = i < inputs.size();
    if (broken(buffers_[i])) {
      return fmt::format("wrote behind {} {}", input ? "input" : "output", input ? i : i - inputs.size());
    }
    if (input && !overwritten_[i] && !holds(buffers_[i].memory->data(), inputs[i])) {
      return fmt::format("changed input {}", i);
    }
  }
  const bool scratch = std::ranges::any_of(nodes_, [&](const BoundNode& n) { return broken(n.workspace); });
  return scratch ? "wrote behind the workspace" : "";
}

}  // namespace tessera
