// OpDef: everything the compiler knows of an op: shape rule, placement rule, gradient rule, cost, what may
// be done in place. One definition per line of graph/op_list.def, in ops/<op>.cpp, found by op_def().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/ops/placement_rule.h"

namespace tessera {

// What a shape rule sees, and how it complains: "[linear] layers.0.mlp.up: input has 64 columns, ...".
struct InferCall {
  Op op;
  std::string_view name;
  const Attrs& attrs;
  std::span<const ValueType> inputs;

  template <class... Args>
  void check(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) fail("[{}] {}: {}", op_name(op), name, fmt::format(format, std::forward<Args>(args)...));
  }
  void check_num_inputs(std::size_t least, std::size_t most) const;
  void check_floating(std::size_t input) const;
  void check_rank_at_least(std::size_t input, int rank) const;
  void check_same_type(std::size_t a, std::size_t b) const;
  void check_dtype(std::size_t input, DType dtype) const;
  void check_shape(std::size_t input, const Shape& shape) const;
  const Shape& shape(std::size_t input) const { return inputs[input].shape; }
  DType dtype(std::size_t input) const { return inputs[input].dtype; }
};

struct Cost {
  double flops = 0;        // of long sequences more than an integer holds
  std::int64_t bytes = 0;  // read and written, every operand once
};

// How a gradient rule sees the node it differentiates, and where it puts the results.
// Implemented by autodiff/; rules live in ops/.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual Graph& graph() = 0;
  virtual const Node& node() const = 0;
  // The gradient that reached output `i`; kNoValue if none did.
  virtual ValueId output_grad(std::size_t i) = 0;
  virtual bool needs_grad(std::size_t input) const = 0;
  // An activation's gradient; several contributions are added up.
  virtual void set_input_grad(std::size_t input, ValueId grad) = 0;
  // For weights: the accumulator so far, and its successor with this node's contribution added.
  virtual ValueId accumulator(std::size_t input) = 0;
  virtual void set_accumulator(std::size_t input, ValueId updated) = 0;
  // For losses, whose gradient op computes the loss again on the way: the training step reads it
  // there, and the forward node becomes dead.
  virtual void set_loss(ValueId loss) = 0;

  // Appends a backward node named after the differentiated one.
  std::vector<ValueId> emit(Op op, Attrs attrs, std::vector<ValueId> inputs,
                            std::string_view suffix = "grad");
};

// Output `output` may be written over input `input` if nothing reads that input later. `always`: the
// op only works so (accumulators, optimizer state).
struct InPlace {
  std::size_t input = 0;
  std::size_t output = 0;
  bool always = false;
};

struct OpDef {
  std::vector<ValueType> (*infer)(const InferCall&) = nullptr;
  PlacementRule placement = {};
  void (*grad)(GradContext&) = nullptr;  // null: not differentiable; building a backward pass names the op
  Cost (*cost)(const Graph&, const Node&) = nullptr;  // null: only moves its operands
  std::vector<InPlace> in_place = {};
  bool in_place_all = false;  // every output is written over its input, always: collectives on buckets
  bool loss = false;  // ends the forward pass: its gradient rule starts from 1, not from an output gradient
  bool constant = false;  // needs no input and never changes: runs once, in the init program
  // Fused ops: the same values from plain ops, the reference in tests. Returns the node's outputs
  // (kNoValue for those only a gradient uses); nothing where plain ops cannot say it.
  std::vector<ValueId> (*compose)(Graph&, const Node&) = nullptr;
};

const OpDef& op_def(Op op);

// Checks the inputs with the op's shape rule and appends the node.
std::vector<ValueId> emit(Graph& graph, Op op, Phase phase, std::string name, Attrs attrs,
                          std::vector<ValueId> inputs);

Cost node_cost(const Graph& graph, const Node& node);

// The pairs that apply to this node.
std::vector<InPlace> in_place_pairs(const Node& node);

}  // namespace tessera
