#include "tessera/optim/adamw_update.h"

#include "tessera/ops/optimizer_ops.h"

namespace tessera {

void append_adamw(Graph& graph, std::span<const ParameterGradient> parameters, const AdamWOptions& options) {
  TS_CHECK(!parameters.empty(), "the model has no parameter that the loss depends on");
  const DType state_dtype = graph.type(parameters[0].accumulator).dtype;
  const ValueId lr = graph.add_input(std::string(kLearningRateInput), {state_dtype, Shape{}}, Role::scalar);
  const ValueId step = graph.add_input(std::string(kStepInput), {DType::i32, Shape{}}, Role::scalar);

  std::vector<ValueId> squares;
  for (const ParameterGradient& p : parameters) {
    squares.push_back(sum_squares(graph, graph.value(p.accumulator).name + ".squares", p.accumulator));
  }
  const ClipValues clip =
      clip_factor(graph, "clip", sum_scalars(graph, "squares", squares), options.clip_norm, state_dtype);
  graph.mark_output(std::string(kGradNormOutput), clip.norm);

  for (const ParameterGradient& p : parameters) {
    const std::string name = graph.value(p.parameter).name;
    const ValueType state{state_dtype, graph.type(p.parameter).shape};
    AdamWInputs in{};
    in.param = p.parameter;
    in.grad = p.accumulator;
    in.moment1 = graph.add_input("moment1." + name, state, Role::optimizer_state);
    in.moment2 = graph.add_input("moment2." + name, state, Role::optimizer_state);
    in.master = graph.type(p.parameter).dtype == DType::bf16
                    ? graph.add_input("master." + name, state, Role::optimizer_state)
                    : kNoValue;
    in.learning_rate = lr;
    in.step = step;
    in.clip_factor = clip.factor;
    const bool decays = options.decay_1d || state.shape.rank() > 1;
    adamw(graph, "adamw." + name, in,
          {options.beta1, options.beta2, options.eps, decays ? options.weight_decay : 0.0});
  }
}

}  // namespace tessera
