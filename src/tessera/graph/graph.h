// Graph: a training step as data. Values are typed tensors, each written once; nodes are ops that
// turn values into values; node order is a valid execution order.
//
// Made by models/ (forward), extended by autodiff/ (backward) and optim/ (update), rewritten by the
// passes of plan/, and compiled by plan/ into a Plan. Nothing here knows a device or a rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/graph/attrs.h"
#include "tessera/graph/op.h"

namespace tessera {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

struct ValueType {
  DType dtype = DType::f32;
  Shape shape;

  bool operator==(const ValueType&) const = default;
  std::int64_t num_bytes() const { return shape.num_elems() * dtype_bytes(dtype); }
  std::string text() const;  // "f32[2,16,768]"
};

// Who provides a value, and so where it lives and how the memory table counts it.
enum class Role : std::uint8_t {
  computed,             // a node's output
  batch,                // written by the loader for every micro-batch: token ids, targets
  received_activation,  // from the pipeline stage before, right before the forward program
  received_gradient,    // from the pipeline stage after, right before the backward program
  scalar,               // written by the host for every step: learning rate, step number, loss scale
  parameter,            // a weight
  gradient,             // a parameter's accumulator: a step's first micro-batch stores, the others add to it
  optimizer_state,      // moments, low halves of weights
  cache,                // keys and values of the tokens so far: generation
};
std::string_view role_name(Role role);

// Which compiled program a node belongs to; see "How a step is cut into programs" in docs/map.md.
enum class Phase : std::uint8_t {
  init,      // once, before the first step: constants such as rotary tables
  forward,   // once per micro-batch
  backward,  // once per micro-batch
  update,    // once per step
};
inline constexpr int kNumPhases = 4;
std::string_view phase_name(Phase phase);

struct Value {
  std::string name;
  ValueType type;
  Role role = Role::computed;
  NodeId producer = kNoNode;  // kNoNode for graph inputs
  // Of an input that belongs to a micro-batch: the pipeline stage of the rank that it is for, as Node's.
  std::int32_t chunk = 0;
};

struct Node {
  Op op{};
  Phase phase = Phase::forward;
  std::string name;
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Which layer of the model it belongs to; -1 before the first, the number of layers after the last.
  // Gradients belong to the layer of what they differentiate.
  std::int32_t layer = -1;
  // Which of the rank's pipeline stages it belongs to; 0 unless stages are interleaved.
  std::int32_t chunk = 0;
};

// State that a program changes: `after` is the next content of the input `before`, in its place.
struct StateUpdate {
  ValueId before = kNoValue;
  ValueId after = kNoValue;
};

// A parameter and where its gradient adds up: autodiff makes these, optimizers consume them.
struct ParameterGradient {
  ValueId parameter = kNoValue;
  ValueId accumulator = kNoValue;  // Role::gradient
};

// A value the host reads after a program, found by name: "loss", "logits", "grad_norm".
struct Output {
  std::string name;
  ValueId value = kNoValue;
};
// Beside these there are messages: values that the host sends to another pipeline stage as soon as the
// program that makes them ends.

class Graph {
 public:
  // The layer of the nodes added from here on. A model with n layers sets n behind the last: without that,
  // its last block counts as what comes after the layers, which `recompute: full` keeps.
  void set_layer(std::int32_t layer) { layer_ = layer; }

  // Names of inputs are unique; the error names the duplicate.
  ValueId add_input(std::string name, ValueType type, Role role, std::int32_t chunk = 0);
  // Outputs are named after the node: "layers.0.norm" for the first, "layers.0.norm:1" and so on.
  std::vector<ValueId> add_node(Op op, Phase phase, std::string name, Attrs attrs,
                                std::vector<ValueId> inputs, std::span<const ValueType> outputs);

  void add_state_update(ValueId before, ValueId after) { state_updates_.push_back({before, after}); }
  // Outputs, messages and state updates keep nodes alive.
  void mark_output(std::string name, ValueId value) { outputs_.push_back({std::move(name), value}); }

  void mark_message(ValueId value) { messages_.push_back(value); }

  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const ValueType& type(ValueId id) const { return value(id).type; }
  ValueId find_input(std::string_view name) const;   // kNoValue if there is none
  ValueId find_output(std::string_view name) const;  // likewise

  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const StateUpdate> state_updates() const { return state_updates_; }
  std::span<const Output> outputs() const { return outputs_; }
  std::span<const ValueId> messages() const { return messages_; }
  std::int32_t num_values() const { return static_cast<std::int32_t>(values_.size()); }
  std::int32_t num_layers() const;  // the largest that any node has; at least 1
  std::int32_t num_nodes() const { return static_cast<std::int32_t>(nodes_.size()); }

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<StateUpdate> state_updates_;
  std::vector<Output> outputs_;
  std::vector<ValueId> messages_;
  std::unordered_map<std::string, ValueId> input_index_;
  std::int32_t layer_ = -1;
};

// The nodes that state updates, outputs and messages need, in order; the rest is dead and is not run.
std::vector<NodeId> live_nodes(const Graph& graph);

}  // namespace tessera
