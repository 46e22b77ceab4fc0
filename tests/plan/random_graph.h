// random_graph: a training step without meaning but with everything a plan must cope with: chains that
// may work in place, values that live long, values kept for backward, accumulators, constants, nodes with
// workspaces, dead nodes, outputs anywhere, and AdamW's update. A function of the seed.
#pragma once

#include <random>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/ops/slice.h"
#include "tessera/optim/optimizer_update.h"

namespace tessera {

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed), rows_(std::int64_t{1} + below(9)) {
    for (int i = 0; i < 3; ++i)
      pool_.push_back(graph_.add_input(name("batch"), type_of_width(), Role::batch));
    const std::int64_t num_forward = 4 + below(25), num_backward = 4 + below(25);
    for (std::int64_t i = 0; i < num_forward; ++i) add_node(Phase::forward);
    for (std::int64_t i = 0; i < num_backward; ++i) add_node(Phase::backward);
    for (int i = 0; i < 3; ++i) graph_.mark_output(name("output"), pick());
    std::vector<ParameterGradient> parameters;
    for (const Trained& t : trained_) {
      if (t.newest == t.accumulator) continue;
      graph_.add_state_update(t.accumulator, t.newest);
      parameters.push_back({t.parameter, t.accumulator});
    }
    if (!parameters.empty()) append_optimizer(graph_, parameters, {});
  }

  const Graph& graph() const { return graph_; }

 private:
  // A parameter, its accumulator, and the node that reads it.
  struct Trained {
    ValueId parameter, accumulator, newest;
    ValueId x, y, statistics;  // statistics: of a norm; kNoValue for a product
  };

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  std::string name(const char* what) { return what + std::to_string(next_name_++); }
  ValueType type_of_width() { return {DType::f32, Shape{rows_, std::int64_t{16} << below(3)}}; }

  // Half of the time one of the last four: chains are what works in place.
  ValueId pick() {
    const auto size = static_cast<std::int64_t>(pool_.size());
    const std::int64_t back = below(2) == 0 ? below(std::min<std::int64_t>(4, size)) : below(size);
    return pool_[static_cast<std::size_t>(size - 1 - back)];
  }
  ValueId pick_of(const ValueType& type) {
    for (int tries = 0; tries < 20; ++tries) {
      if (const ValueId v = pick(); graph_.type(v) == type) return v;
    }
    return kNoValue;
  }

  ValueId node(Phase phase, Op op, Attrs attrs, std::vector<ValueId> inputs) {
    return emit(graph_, op, phase, name("node"), std::move(attrs), std::move(inputs))[0];
  }

  void add_node(Phase phase) {
    const ValueId a = pick();
    const ValueType type = graph_.type(a);
    const std::int64_t width = type.shape[-1];
    switch (below(8)) {
      case 0:
        pool_.push_back(node(phase, Op::scale, ScaleAttrs{0.75}, {a}));
        break;
      case 1: {
        const Op ops[] = {Op::silu, Op::softmax};
        pool_.push_back(node(phase, ops[below(2)], {}, {a}));
        break;
      }
      case 2:
      case 3: {
        const Op ops[] = {Op::add, Op::mul, Op::silu_grad, Op::softmax_grad};
        const ValueId b = pick_of(type);
        pool_.push_back(node(phase, ops[below(4)], {}, {a, b == kNoValue ? a : b}));
        break;
      }
      case 4:
        pool_.push_back(width > 16 ? node(phase, Op::slice, SliceAttrs{below(3), width / 2}, {a})
                                   : node(phase, Op::concat, {}, {a, a}));
        break;
      case 5:
        add_sum(phase, a, pick_of(type));
        break;
      default:
        phase == Phase::forward ? add_layer(a) : add_layer_gradient();
    }
  }

  // A sum that starts from zeros (or a constant made at the start), grows in place, and is added back.
  void add_sum(Phase phase, ValueId a, ValueId b) {
    const ValueType column{DType::f32, Shape{graph_.type(a).shape[-1]}};
    ValueId sum = node(phase, Op::zeros, ZerosAttrs{column}, {});
    sum = node(phase, Op::sum_to, {}, {sum, a});
    if (b != kNoValue) sum = node(phase, Op::sum_to, {}, {sum, b});
    const ValueId constant = node(Phase::init, Op::zeros, ZerosAttrs{column}, {});
    pool_.push_back(node(phase, Op::add, {}, {node(phase, Op::add, {}, {a, sum}), constant}));
  }

  void add_layer(ValueId x) {
    const std::int64_t width = graph_.type(x).shape[-1];
    const bool norm = below(2) == 0;
    const Shape shape = norm ? Shape{width} : Shape{std::int64_t{16} << below(3), width};
    const ValueId weight = graph_.add_input(name("weight"), {DType::f32, shape}, Role::parameter);
    const ValueId sum =
        graph_.add_input("grad." + graph_.value(weight).name, {DType::f32, shape}, Role::gradient);
    const ValueId y =
        norm ? rms_norm(graph_, name("norm"), x, weight, 1e-3) : linear(graph_, name("linear"), x, weight);
    const ValueId statistics = norm ? graph_.node(graph_.value(y).producer).outputs[1] : kNoValue;
    trained_.push_back({weight, sum, sum, x, y, statistics});
    pool_.push_back(y);
  }

  void add_layer_gradient() {
    if (trained_.empty()) return;
    Trained& t = trained_[static_cast<std::size_t>(below(static_cast<std::int64_t>(trained_.size())))];
    const ValueId found = pick_of(graph_.type(t.y)), dy = found == kNoValue ? t.y : found;
    if (t.statistics != kNoValue) {
      const auto grads = emit(graph_, Op::rms_norm_grad, Phase::backward, name("norm_grad"), {},
                              {dy, t.x, t.parameter, t.statistics, t.newest});
      pool_.push_back(grads[0]);
      t.newest = grads[1];
    } else {
      t.newest = node(Phase::backward, Op::linear_grad_weight, {}, {t.newest, dy, t.x});
      pool_.push_back(node(Phase::backward, Op::linear_grad_input, {}, {dy, t.parameter}));
    }
  }

  std::mt19937_64 random_;
  std::int64_t rows_;
  Graph graph_;
  int next_name_ = 0;
  std::vector<ValueId> pool_;  // [rows, 16 .. 64] values to read
  std::vector<Trained> trained_;
};

}  // namespace tessera
