#include "tessera/autodiff/differentiate.h"

#include <algorithm>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

class Backward final : public GradContext {
 public:
  Backward(Graph& graph, std::span<const ValueId> wanted) : graph_(graph) {
    const auto num_values = static_cast<std::size_t>(graph.num_values());
    grads_.assign(num_values, kNoValue);
    accumulators_.assign(num_values, kNoValue);
    needs_grad_.assign(num_values, false);
    for (ValueId v = 0; v < graph.num_values(); ++v) {
      if (graph.value(v).role == Role::parameter) needs_grad_[index(v)] = true;
    }
    for (ValueId v : wanted) needs_grad_[index(v)] = true;
    for (const Node& n : graph.nodes()) {
      const bool needed =
          std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return needs_grad_[index(v)]; });
      for (ValueId output : n.outputs) needs_grad_[index(output)] = needed;
    }
  }

  void seed(const GradientSeed& seed) { add_gradient(seed.value, seed.gradient); }

  // `loss` may be kNoValue; its producer is differentiated although no gradient flows into it.
  void run(ValueId loss) {
    const NodeId last = graph_.num_nodes() - 1;
    const NodeId loss_node = loss == kNoValue ? kNoNode : graph_.value(loss).producer;
    loss_ = loss;
    for (node_ = last; node_ >= 0; --node_) {
      const std::vector<ValueId>& outputs = node().outputs;
      const bool reached = node_ == loss_node || std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) {
                             return grads_[index(v)] != kNoValue;
                           });
      if (!reached || !needs_grad_[index(outputs[0])]) continue;
      const OpDef& def = op_def(node().op);
      TS_CHECK(def.grad, "node {}: op {} has no gradient rule", node().name, op_name(node().op));
      def.grad(*this);
    }
  }

  Gradients finish(std::span<const ValueId> wanted) {
    Gradients result;
    result.loss = loss_;
    for (std::size_t v = 0; v < accumulators_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (accumulators_[v] == kNoValue || graph_.value(id).role != Role::parameter) continue;
      const ValueId first = graph_.find_input(accumulator_name(id));
      graph_.add_state_update(first, accumulators_[v]);
      result.parameters.push_back({id, first});
    }
    for (ValueId v : wanted) {
      result.wanted.push_back(grads_[index(v)] != kNoValue ? grads_[index(v)] : accumulators_[index(v)]);
    }
    return result;
  }

  Graph& graph() override { return graph_; }
  const Node& node() const override { return graph_.node(node_); }
  ValueId output_grad(std::size_t i) override { return grads_[index(node().outputs[i])]; }
  bool needs_grad(std::size_t input) const override { return needs_grad_[index(node().inputs[input])]; }

  void set_input_grad(std::size_t input, ValueId grad) override { add_gradient(node().inputs[input], grad); }

  ValueId accumulator(std::size_t input) override {
    const ValueId value = node().inputs[input];
    ValueId& current = accumulators_[index(value)];
    if (current != kNoValue) return current;
    const Value v = graph_.value(value);
    const ValueType type{accumulate_dtype(v.type.dtype), v.type.shape};
    // A weight that is not a parameter (computed, or an input of a test) starts from zeros each time.
    current = v.role == Role::parameter
                  ? graph_.add_input(accumulator_name(value), type, Role::gradient)
                  : tessera::emit(graph_, Op::zeros, Phase::backward, v.name + ".grad_zero", ZerosAttrs{type}, {})[0];
    return current;
  }

  void set_accumulator(std::size_t input, ValueId updated) override {
    const ValueId value = node().inputs[input];
    accumulators_[index(value)] = updated;
    const Value& v = graph_.value(value);
    if (v.role != Role::parameter && v.producer != kNoNode) {
      // The producer is differentiated with this gradient; a second user starts a new accumulator.
      TS_CHECK(v.type == graph_.type(updated), "node {}: gradient of {} is {}, expected {}", node().name,
               v.name, graph_.type(updated).text(), v.type.text());
      accumulators_[index(value)] = kNoValue;
      add_gradient(value, updated);
    }
  }

  void set_loss(ValueId loss) override { loss_ = loss; }

 private:
  static std::size_t index(ValueId v) { return static_cast<std::size_t>(v); }
  std::string accumulator_name(ValueId parameter) const { return "grad." + graph_.value(parameter).name; }

  void add_gradient(ValueId value, ValueId grad) {
    ValueId& current = grads_[index(value)];
    current = current == kNoValue ? grad
                                  : tessera::emit(graph_, Op::add, Phase::backward,
                                                  graph_.value(value).name + ".grad_sum", {}, {current, grad})[0];
  }

  Graph& graph_;
  NodeId node_ = kNoNode;
  ValueId loss_ = kNoValue;
  std::vector<ValueId> grads_;         // by value of the forward graph
  std::vector<ValueId> accumulators_;  // likewise: the newest link of its chain
  std::vector<bool> needs_grad_;
};

}  // namespace

Gradients differentiate(Graph& graph, ValueId loss) {
  TS_CHECK(graph.type(loss).shape.rank() == 0 && graph.value(loss).producer != kNoNode,
           "loss {} has shape {}, expected the scalar output of a node", graph.value(loss).name,
           graph.type(loss).shape.text());
  Backward backward(graph, {});
  backward.run(loss);
  return backward.finish({});
}

Gradients differentiate(Graph& graph, std::span<const GradientSeed> seeds, std::span<const ValueId> wanted) {
  Backward backward(graph, wanted);
  for (const GradientSeed& seed : seeds) backward.seed(seed);
  backward.run(kNoValue);
  return backward.finish(wanted);
}

}  // namespace tessera
