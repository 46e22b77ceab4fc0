#include "tessera/autodiff/differentiate.h"

#include <algorithm>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

class Backward final : public GradContext {
 public:
  Backward(Graph& graph, std::span<const ValueId> wanted, GradientStorage storage) : graph_(graph) {
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
      if (!needed) continue;  // but a computed value may be wanted itself
      for (ValueId output : n.outputs) needs_grad_[index(output)] = true;
    }
    if (storage == GradientStorage::rounded_products) find_product_weights();
  }

  void seed(const GradientSeed& seed) { add_gradient(seed.value, seed.gradient); }

  // The producers of losses are differentiated although no gradient flows into them.
  void run(std::span<const ValueId> losses) {
    const NodeId last = graph_.num_nodes() - 1;
    losses_.assign(losses.begin(), losses.end());
    for (node_ = last; node_ >= 0; --node_) {
      const std::vector<ValueId>& outputs = node().outputs;
      const bool is_loss = std::ranges::find(losses, outputs[0]) != losses.end();
      const bool reached =
          std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return has_gradient(v); });
      if ((!reached && !is_loss) || !needs_grad_[index(outputs[0])]) continue;
      differentiate_node(is_loss);
    }
  }

  Gradients finish(std::span<const ValueId> wanted) {
    Gradients result;
    if (!losses_.empty()) result.loss = sum_of_losses();
    for (std::size_t v = 0; v < accumulators_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (accumulators_[v] == kNoValue || graph_.value(id).role != Role::parameter) continue;
      const ValueId first = graph_.find_input(accumulator_name(id));
      graph_.add_state_update(first, accumulators_[v]);
      result.parameters.push_back({id, first});
    }
    for (ValueId v : wanted) {
      // An input that served both as an activation and as a weight has a part of its gradient in each.
      if (has_gradient(v) && accumulators_[index(v)] != kNoValue) add_gradient(v, accumulators_[index(v)]);
      result.wanted.push_back(has_gradient(v) ? grads_[index(v)] : accumulators_[index(v)]);
    }
    return result;
  }

  Graph& graph() override { return graph_; }
  const Node& node() const override { return graph_.node(node_); }
  ValueId output_grad(std::size_t i) override { return grads_[index(node().outputs[i])]; }
  bool needs_grad(std::size_t input) const override { return needs_grad_[index(node().inputs[input])]; }

  void set_input_grad(std::size_t input, ValueId grad) override {
    handled_[input] = true;
    add_gradient(node().inputs[input], grad);
  }

  ValueId accumulator(std::size_t input) override { return accumulator_of(node().inputs[input]); }

  void set_accumulator(std::size_t input, ValueId updated) override {
    const ValueId value = node().inputs[input];
    handled_[input] = true;
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

  void set_loss(ValueId loss) override { std::ranges::replace(losses_, node().outputs[0], loss); }

 private:
  static std::size_t index(ValueId v) { return static_cast<std::size_t>(v); }
  bool has_gradient(ValueId v) const { return grads_[index(v)] != kNoValue; }
  std::string accumulator_name(ValueId parameter) const { return "grad." + graph_.value(parameter).name; }

  ValueId sum_of_losses() {
    ValueId sum = losses_[0];
    if (losses_.size() > 1) graph_.set_layer(graph_.num_layers());
    for (std::size_t i = 1; i < losses_.size(); ++i) {
      sum = tessera::emit(graph_, Op::add, Phase::backward, "loss_sum", {}, {sum, losses_[i]})[0];
    }
    return sum;
  }

  // A gradient that a rule ignored would give wrong numbers in silence: name the node instead.
  void differentiate_node(bool is_loss) {
    const Node n = node();
    const OpDef& def = op_def(n.op);
    TS_CHECK(def.grad, "node {}: op {} has no gradient rule", n.name, op_name(n.op));
    TS_CHECK(def.loss || !is_loss, "loss {} comes from op {}, expected a loss op", n.name, op_name(n.op));
    for (std::size_t i = def.loss ? 0 : 1; i < n.outputs.size(); ++i) {
      TS_CHECK(!has_gradient(n.outputs[i]),
               "node {}: op {} has no rule for a gradient that flows into its output {}", n.name,
               op_name(n.op), i);
    }
    handled_.assign(n.inputs.size(), false);
    graph_.set_layer(n.layer);
    def.grad(*this);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      TS_CHECK(handled_[i] || !needs_grad_[index(n.inputs[i])],
               "node {}: op {} has no rule for the gradient of its input {}", n.name, op_name(n.op),
               graph_.value(n.inputs[i]).name);
    }
  }

  // Parameters that nothing but one linear layer reads, as its weight.
  void find_product_weights() {
    std::vector<int> readers(needs_grad_.size(), 0), linears(needs_grad_.size(), 0);
    for (const Node& n : graph_.nodes()) {
      for (ValueId v : n.inputs) ++readers[index(v)];
      if (n.op == Op::linear) ++linears[index(n.inputs[1])];
    }
    product_weight_.assign(needs_grad_.size(), false);
    for (ValueId v = 0; v < graph_.num_values(); ++v) {
      product_weight_[index(v)] =
          graph_.value(v).role == Role::parameter && readers[index(v)] == 1 && linears[index(v)] == 1;
    }
  }

  ValueId accumulator_of(ValueId value) {
    ValueId& current = accumulators_[index(value)];
    if (current != kNoValue) return current;
    const Value v = graph_.value(value);
    const bool rounded = index(value) < product_weight_.size() && product_weight_[index(value)];
    const ValueType type{rounded ? v.type.dtype : accumulate_dtype(v.type.dtype), v.type.shape};
    // A weight that is not a parameter (computed, or an input of a test) starts from zeros each time.
    current = v.role == Role::parameter ? graph_.add_input(accumulator_name(value), type, Role::gradient)
                                        : tessera::emit(graph_, Op::zeros, Phase::backward,
                                                        v.name + ".grad_zero", ZerosAttrs{type}, {})[0];
    return current;
  }

  // A parameter's gradient ends in its accumulator whichever way an op hands it over; an activation's
  // contributions are added to each other.
  void add_gradient(ValueId value, ValueId grad) {
    const std::string name = graph_.value(value).name + ".grad_sum";
    if (graph_.value(value).role == Role::parameter) {
      const ValueId before = accumulator_of(value);
      accumulators_[index(value)] =
          tessera::emit(graph_, Op::sum_to, Phase::backward, name, {}, {before, grad})[0];
      return;
    }
    ValueId& current = grads_[index(value)];
    current = current == kNoValue
                  ? grad
                  : tessera::emit(graph_, Op::add, Phase::backward, name, {}, {current, grad})[0];
  }

  Graph& graph_;
  NodeId node_ = kNoNode;
  std::vector<ValueId> losses_;        // as computed where the training step reads them
  std::vector<ValueId> grads_;         // by value of the forward graph
  std::vector<ValueId> accumulators_;  // likewise: the newest link of its chain
  std::vector<bool> needs_grad_;
  std::vector<bool> product_weight_;  // whose gradient one product makes, and which may be rounded
  std::vector<bool> handled_;         // inputs of the current node that its rule gave a gradient
};

}  // namespace

Gradients differentiate(Graph& graph, ValueId loss) {
  return differentiate(graph, std::span<const ValueId>(&loss, 1));
}

Gradients differentiate(Graph& graph, std::span<const ValueId> losses, GradientStorage storage) {
  for (ValueId loss : losses) {
    TS_CHECK(graph.type(loss).shape.rank() == 0 && graph.value(loss).producer != kNoNode,
             "loss {} has shape {}, expected the scalar output of a node", graph.value(loss).name,
             graph.type(loss).shape.text());
  }
  Backward backward(graph, {}, storage);
  backward.run(losses);
  return backward.finish({});
}

Gradients differentiate(Graph& graph, std::span<const GradientSeed> seeds, std::span<const ValueId> wanted) {
  Backward backward(graph, wanted, GradientStorage::wide);
  for (const GradientSeed& seed : seeds) backward.seed(seed);
  backward.run({});
  return backward.finish(wanted);
}

}  // namespace tessera
