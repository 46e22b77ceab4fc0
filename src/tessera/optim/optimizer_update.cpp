#include "tessera/optim/optimizer_update.h"

#include <algorithm>

#include "tessera/base/philox.h"
#include "tessera/ops/lamb.h"
#include "tessera/ops/sgd.h"

namespace tessera {
namespace {

class OptimizerWriter {
 public:
  OptimizerWriter(Graph& graph, std::span<const ParameterGradient> parameters,
                  const OptimizerOptions& options)
      : graph_(graph), parameters_(parameters), options_(options) {
    sums_ = accumulate_dtype(graph.type(parameters[0].parameter).dtype);
    learning_rate_ = graph.add_input(std::string(kLearningRateInput), {sums_, Shape{}}, Role::scalar);
    // Only bias correction reads it.
    if (options.kind != OptimizerKind::sgd)
      step_ = graph.add_input(std::string(kStepInput), {DType::i32, Shape{}}, Role::scalar);
  }

  void run() {
    clip();
    if (options_.parameter_norm) measure_parameters();
    switch (options_.kind) {
      case OptimizerKind::adamw:
        return append_adamw();
      case OptimizerKind::lamb:
        return append_lamb();
      case OptimizerKind::sgd:
        return append_sgd();
    }
  }

 private:
  const std::string& name(const ParameterGradient& p) const { return graph_.value(p.parameter).name; }
  bool may_decay(const ParameterGradient& p) const {
    const auto named = [&](const std::string& part) { return name(p).find(part) != std::string::npos; };
    return (options_.decay_1d || graph_.type(p.parameter).shape.rank() > 1) &&
           std::ranges::none_of(options_.no_decay, named);
  }
  double decay(const ParameterGradient& p) const { return may_decay(p) ? options_.weight_decay : 0.0; }

  void clip() {
    std::vector<ValueId> squares;
    for (const ParameterGradient& p : parameters_) {
      squares.push_back(sum_squares(graph_, graph_.value(p.accumulator).name + ".squares", p.accumulator));
    }
    const ClipValues clip =
        clip_factor(graph_, "clip", sum_scalars(graph_, "squares", squares), options_.clip_norm, sums_);
    graph_.mark_output(std::string(kGradNormOutput), clip.norm);
    clip_factor_ = clip.factor;
  }

  // Every weight counts once, however it lies: as with the gradients, that is a matter of placements.
  void measure_parameters() {
    std::vector<ValueId> squares;
    for (const ParameterGradient& p : parameters_) {
      squares.push_back(sum_squares(graph_, name(p) + ".squares", p.parameter));
    }
    const ValueId sum = sum_scalars(graph_, "parameter_squares", squares);
    const double no_limit = 0;
    graph_.mark_output(std::string(kParameterNormOutput),
                       clip_factor(graph_, "parameter_norm", sum, no_limit, sums_).norm);
  }

  ValueId add_state(const std::string& state_name, const ParameterGradient& p, DType dtype) {
    return graph_.add_input(state_name, {dtype, graph_.type(p.parameter).shape}, Role::optimizer_state);
  }
  ValueId add_moment(std::string_view what, const ParameterGradient& p) {
    const DType dtype = sums_ == DType::f64 ? sums_ : options_.state_dtype;
    return add_state(fmt::format("{}.{}", what, name(p)), p, dtype);
  }
  ValueId add_low_halves(const ParameterGradient& p) {
    const bool rounded = graph_.type(p.parameter).dtype == DType::bf16;
    if (!rounded || options_.state_dtype == DType::bf16) return kNoValue;
    return add_state(low_halves_name(name(p)), p, DType::i16);
  }

  MomentInputs add_moments(const ParameterGradient& p) {
    MomentInputs in;
    in.param = p.parameter;
    in.grad = p.accumulator;
    in.moment1 = add_moment("moment1", p);
    in.moment2 = add_moment("moment2", p);
    in.low = add_low_halves(p);
    in.learning_rate = learning_rate_;
    in.step = step_;
    in.clip_factor = clip_factor_;
    return in;
  }

  void append_adamw() {
    for (const ParameterGradient& p : parameters_) {
      adamw(graph_, "adamw." + name(p), add_moments(p),
            {options_.beta1, options_.beta2, options_.eps, decay(p), options_.form, name_hash(name(p))});
    }
  }

  void append_lamb() {
    std::vector<MomentInputs> inputs;
    std::vector<ValueId> directions;
    std::vector<ValueId> squares;
    for (const ParameterGradient& p : parameters_) {
      inputs.push_back(add_moments(p));
      directions.push_back(lamb_direction(graph_, "direction." + name(p), inputs.back(),
                                          {options_.beta1, options_.beta2, options_.eps, decay(p)}));
      const std::vector<ValueId> two =
          sums_of_squares(graph_, "norms." + name(p), {p.parameter, directions.back()});
      squares.insert(squares.end(), two.begin(), two.end());
    }
    const ValueId norms = stack_scalars(graph_, "norms", squares);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const LambAttrs attrs{static_cast<std::int64_t>(2 * i), may_decay(parameters_[i]), options_.trust_clip};
      lamb(graph_, "lamb." + name(parameters_[i]), inputs[i], directions[i], norms, attrs);
    }
  }

  void append_sgd() {
    for (const ParameterGradient& p : parameters_) {
      SgdInputs in{};
      in.param = p.parameter;
      in.grad = p.accumulator;
      in.momentum = add_moment("momentum", p);
      in.low = add_low_halves(p);
      in.learning_rate = learning_rate_;
      in.clip_factor = clip_factor_;
      sgd(graph_, "sgd." + name(p), in, {options_.momentum, decay(p)});
    }
  }

  Graph& graph_;
  const std::span<const ParameterGradient> parameters_;
  const OptimizerOptions& options_;
  DType sums_ = DType::f32;
  ValueId learning_rate_ = kNoValue, step_ = kNoValue, clip_factor_ = kNoValue;
};

}  // namespace

std::string low_halves_name(const std::string& parameter) {
  return "low." + parameter;
}

void append_optimizer(Graph& graph, std::span<const ParameterGradient> parameters,
                      const OptimizerOptions& options) {
  TS_CHECK(!parameters.empty(), "the model has no parameter that the loss depends on");
  OptimizerWriter(graph, parameters, options).run();
}

}  // namespace tessera
