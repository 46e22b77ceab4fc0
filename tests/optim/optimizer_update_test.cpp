// The update programs against loops in double over several steps: a matrix that decays and a vector that
// does not, clipped by their common norm.
#include "tessera/optim/optimizer_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/base/float_halves.h"
#include "tessera/base/philox.h"
#include "tessera/base/stochastic_rounding.h"
#include "tessera/runtime/executor.h"

namespace tessera {
namespace {

using Doubles = std::vector<double>;

struct Tensor {
  std::string name;
  Shape shape;
};
const std::vector<Tensor> kTensors = {{"matrix", {5, 7}}, {"vector", {11}}};

bool decays(const OptimizerOptions& options, const Tensor& tensor) {
  const bool excluded = std::ranges::find(options.no_decay, tensor.name) != options.no_decay.end();
  return !excluded && (options.decay_1d || tensor.shape.rank() > 1);
}

Doubles gradient_of_step(const Tensor& tensor, int step, double size) {
  Doubles values;
  for (std::int64_t i = 0; i < tensor.shape.num_elems(); ++i) {
    values.push_back(size * philox_normal(static_cast<std::uint64_t>(step), name_hash(tensor.name), i));
  }
  return values;
}

double rounded_to_bf16(double value) {
  return static_cast<double>(static_cast<float>(Bf16(static_cast<float>(value))));
}

double norm_of(const Doubles& values) {
  double squares = 0;
  for (double v : values) squares += v * v;
  return std::sqrt(squares);
}

// torch.optim.AdamW and torch.optim.SGD after torch.nn.utils.clip_grad_norm_, and LAMB as its paper's
// algorithm 2 has it (with bias correction), in double.
struct NaiveOptimizer {
  struct State {
    Doubles weight, moment1, moment2;  // sgd's momentum is moment1
    bool decays = false;
    std::uint64_t name_hash = 0;
  };
  OptimizerOptions options;
  bool bf16_parameters = false;
  std::vector<State> states;

  double step(int t, double learning_rate, const std::vector<Doubles>& gradients) {
    double squares = 0;
    for (const Doubles& gradient : gradients) squares += std::pow(norm_of(gradient), 2);
    const double norm = std::sqrt(squares);
    const double clip = options.clip_norm > 0 ? std::min(1.0, options.clip_norm / (norm + 1e-6)) : 1.0;
    for (std::size_t n = 0; n < states.size(); ++n) {
      Doubles gradient = gradients[n];
      for (double& g : gradient) g *= clip;
      switch (options.kind) {
        case OptimizerKind::adamw:
          adamw(states[n], t, learning_rate, gradient);
          break;
        case OptimizerKind::lamb:
          lamb(states[n], t, learning_rate, gradient);
          break;
        case OptimizerKind::sgd:
          sgd(states[n], learning_rate, gradient);
          break;
      }
    }
    return norm;
  }

 private:
  double decay(const State& s) const { return s.decays ? options.weight_decay : 0.0; }
  // adamw rounds bf16 by these random bits, the others to nearest.
  double stored(double moment, std::uint32_t random) const {
    if (options.state_dtype != DType::bf16) return moment;
    if (options.kind != OptimizerKind::adamw) return rounded_to_bf16(moment);
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(moment));
    return std::bit_cast<float>(std::uint32_t{round_stochastically(bits, random)} << 16);
  }

  Doubles adam_direction(State& s, int t, const Doubles& gradient) const {
    Doubles direction;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient[i];
      const double moment1 = s.moment1[i] + (1 - options.beta1) * (g - s.moment1[i]);
      const double moment2 = s.moment2[i] + (1 - options.beta2) * (g * g - s.moment2[i]);
      const double mean = moment1 / (1 - std::pow(options.beta1, t));
      const double square = moment2 / (1 - std::pow(options.beta2, t));
      direction.push_back(mean / (std::sqrt(square) + options.eps));
      const std::uint32_t word = rounding_words(s.name_hash, static_cast<std::uint64_t>(t), i / 4)[i % 4];
      s.moment1[i] = stored(moment1, moment1_bits(word));
      s.moment2[i] = stored(moment2, moment2_bits(word));
    }
    return direction;
  }

  void adamw(State& s, int t, double learning_rate, const Doubles& gradient) const {
    if (options.form == AdamWForm::transformers) return adamw_of_transformers(s, t, learning_rate, gradient);
    const Doubles direction = adam_direction(s, t, gradient);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      s.weight[i] -= learning_rate * decay(s) * s.weight[i];
      s.weight[i] -= learning_rate * direction[i];
    }
  }

  void adamw_of_transformers(State& s, int t, double learning_rate, const Doubles& gradient) const {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      s.moment1[i] = options.beta1 * s.moment1[i] + (1 - options.beta1) * gradient[i];
      s.moment2[i] = options.beta2 * s.moment2[i] + (1 - options.beta2) * gradient[i] * gradient[i];
      const double step_size =
          learning_rate * std::sqrt(1 - std::pow(options.beta2, t)) / (1 - std::pow(options.beta1, t));
      s.weight[i] -= step_size * s.moment1[i] / (std::sqrt(s.moment2[i]) + options.eps);
      s.weight[i] -= learning_rate * decay(s) * s.weight[i];
    }
  }

  void lamb(State& s, int t, double learning_rate, const Doubles& gradient) const {
    Doubles direction = adam_direction(s, t, gradient);
    for (std::size_t i = 0; i < direction.size(); ++i) direction[i] += decay(s) * s.weight[i];
    Doubles parameter = s.weight;  // as the model multiplies with it
    if (bf16_parameters) std::ranges::transform(parameter, parameter.begin(), rounded_to_bf16);
    const double weight_norm = norm_of(parameter), direction_norm = norm_of(direction);
    double ratio = s.decays && weight_norm > 0 && direction_norm > 0 ? weight_norm / direction_norm : 1.0;
    if (options.trust_clip) ratio = std::min(ratio, 1.0);
    for (std::size_t i = 0; i < direction.size(); ++i) s.weight[i] -= learning_rate * ratio * direction[i];
  }

  void sgd(State& s, double learning_rate, const Doubles& gradient) const {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double moment = options.momentum * s.moment1[i] + gradient[i] + decay(s) * s.weight[i];
      s.weight[i] -= learning_rate * moment;
      s.moment1[i] = stored(moment, 0);
    }
  }
};

template <class T>
void write_doubles(Executor& executor, const std::string& input, const Doubles& values) {
  std::vector<T> elems;
  for (double v : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      elems.push_back(Bf16(static_cast<float>(v)));
    } else {
      elems.push_back(static_cast<T>(v));
    }
  }
  executor.write<T>(input, elems);
}

template <class T>
Doubles read_doubles(const Executor& executor, const std::string& input) {
  Doubles values;
  for (T v : executor.input(input).as<T>()) {
    if constexpr (std::is_same_v<T, Bf16>) {
      values.push_back(static_cast<double>(static_cast<float>(v)));
    } else {
      values.push_back(static_cast<double>(v));
    }
  }
  return values;
}

// Of a bf16 parameter and its low halves.
Doubles joined_weights(const Executor& executor, const std::string& parameter) {
  Doubles weights;
  const auto low = executor.input("low." + parameter).as<std::int16_t>();
  for (std::size_t i = 0; i < low.size(); ++i) {
    const Bf16 rounded = executor.input(parameter).as<Bf16>()[i];
    weights.push_back(std::bit_cast<float>(join_halves(rounded.bits, low[i])));
  }
  return weights;
}

std::unique_ptr<Executor> make_update(DType dtype, const OptimizerOptions& options, Device& device) {
  Graph graph;
  std::vector<ParameterGradient> parameters;
  for (const Tensor& tensor : kTensors) {
    const ValueId parameter = graph.add_input(tensor.name, {dtype, tensor.shape}, Role::parameter);
    parameters.push_back(
        {parameter,
         graph.add_input("grad." + tensor.name, {accumulate_dtype(dtype), tensor.shape}, Role::gradient)});
  }
  append_optimizer(graph, parameters, options);
  Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); });
  return std::make_unique<Executor>(std::move(graph), std::move(plan), device);
}

// T: the parameters' type, A: that of their state. `tolerance` relative to the weights' size, about 1.
template <class T, class A>
void check_steps(const OptimizerOptions& options, double gradient_size, double tolerance) {
  const auto device = make_cpu_device(2);
  const std::unique_ptr<Executor> executor = make_update(dtype_of<T>, options, *device);
  constexpr bool kSplit = std::is_same_v<T, Bf16>;
  NaiveOptimizer naive{options, kSplit, {}};
  for (const Tensor& tensor : kTensors) {
    Doubles start = gradient_of_step(tensor, 1000, 1.0);
    write_doubles<T>(*executor, tensor.name, start);
    if constexpr (kSplit) {
      std::vector<std::int16_t> low;
      for (double w : start) low.push_back(low_half(std::bit_cast<std::uint32_t>(static_cast<float>(w))));
      executor->write<std::int16_t>("low." + tensor.name, low);
    }
    const Doubles zeros(start.size(), 0.0);
    naive.states.push_back({start, zeros, zeros, decays(options, tensor), name_hash(tensor.name)});
  }
  for (std::int32_t t = 1; t <= 6; ++t) {
    const double rate = 0.1 / t;
    std::vector<Doubles> gradients;
    for (const Tensor& tensor : kTensors) {
      gradients.push_back(gradient_of_step(tensor, t, gradient_size));
      write_doubles<A>(*executor, "grad." + tensor.name, gradients.back());
    }
    write_doubles<A>(*executor, std::string(kLearningRateInput), {rate});
    if (options.kind != OptimizerKind::sgd)
      executor->write<std::int32_t>(kStepInput, std::vector<std::int32_t>{t});
    executor->run(Phase::update);
    const double norm = naive.step(t, rate, gradients);
    EXPECT_NEAR(static_cast<double>(executor->read_scalar(kGradNormOutput)), norm, 1e-6 * norm);
    for (std::size_t n = 0; n < kTensors.size(); ++n) {
      const std::string& name = kTensors[n].name;
      Doubles found;
      if constexpr (kSplit) {
        found = joined_weights(*executor, name);
      } else {
        found = read_doubles<A>(*executor, name);
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], naive.states[n].weight[i], tolerance)
            << name << " element " << i << ", step " << t;
      }
    }
  }
}

OptimizerOptions options_of(OptimizerKind kind) {
  OptimizerOptions options;
  options.kind = kind;
  options.beta2 = 0.95;
  options.weight_decay = 0.3;
  return options;
}
constexpr OptimizerKind kKinds[] = {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::sgd};

TEST(OptimizerUpdate, ClippedSteps) {
  for (OptimizerKind kind : kKinds) {
    check_steps<double, double>(options_of(kind), 3.0, 1e-13);
    check_steps<float, float>(options_of(kind), 3.0, 2e-6);
  }
}

TEST(OptimizerUpdate, StepsBelowTheClipNorm) {
  for (OptimizerKind kind : kKinds) check_steps<double, double>(options_of(kind), 0.01, 1e-13);
}

TEST(OptimizerUpdate, StepsWithoutClipping) {
  for (OptimizerKind kind : kKinds) {
    OptimizerOptions options = options_of(kind);
    options.clip_norm = 0;
    check_steps<double, double>(options, 3.0, 1e-13);
  }
}

TEST(OptimizerUpdate, DecayOfVectorsToo) {
  for (OptimizerKind kind : kKinds) {
    OptimizerOptions options = options_of(kind);
    options.decay_1d = true;
    check_steps<double, double>(options, 3.0, 1e-13);
  }
}

TEST(OptimizerUpdate, DecayExcludesByName) {
  for (OptimizerKind kind : kKinds) {
    OptimizerOptions options = options_of(kind);
    options.decay_1d = true;
    options.no_decay = {"matrix"};
    check_steps<double, double>(options, 3.0, 1e-13);
  }
}

// eps is as large as the gradients: its place beside the root is seen.
TEST(OptimizerUpdate, AdamWAsTransformers) {
  OptimizerOptions options = options_of(OptimizerKind::adamw);
  options.form = AdamWForm::transformers;
  options.eps = 0.1;
  check_steps<double, double>(options, 3.0, 1e-13);
  check_steps<float, float>(options, 3.0, 2e-6);
  check_steps<Bf16, float>(options, 3.0, 2e-6);
}

TEST(OptimizerUpdate, Bf16WithLowHalves) {
  for (OptimizerKind kind : kKinds) check_steps<Bf16, float>(options_of(kind), 3.0, 2e-6);
}

TEST(OptimizerUpdate, Bf16MomentsOfFp32Weights) {
  for (OptimizerKind kind : kKinds) {
    OptimizerOptions options = options_of(kind);
    options.state_dtype = DType::bf16;
    check_steps<float, float>(options, 3.0, 2e-6);
  }
}

// Weights of norm about 6 and directions of norm about 6 at first: both sides of the clip occur.
TEST(OptimizerUpdate, LambWithoutTrustClipAndWithoutDecay) {
  OptimizerOptions options = options_of(OptimizerKind::lamb);
  options.trust_clip = false;
  check_steps<double, double>(options, 3.0, 1e-13);
  options.weight_decay = 0;
  check_steps<double, double>(options, 3.0, 1e-13);
}

// A norm of zero leaves the step as it is: weights that start at zero still learn.
TEST(OptimizerUpdate, LambFromZeroWeights) {
  const auto device = make_cpu_device(1);
  const auto executor = make_update(DType::f64, options_of(OptimizerKind::lamb), *device);
  const Tensor& matrix = kTensors[0];
  const Doubles gradient = gradient_of_step(matrix, 1, 1e-3);
  write_doubles<double>(*executor, "grad.matrix", gradient);
  write_doubles<double>(*executor, std::string(kLearningRateInput), {0.1});
  executor->write<std::int32_t>(kStepInput, std::vector<std::int32_t>{1});
  executor->run(Phase::update);
  const Doubles found = read_doubles<double>(*executor, "matrix");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double g = gradient[i];  // bias correction makes the first direction g / (|g| + eps)
    EXPECT_NEAR(found[i], -0.1 * g / (std::abs(g) + 1e-8), 1e-12);
  }
}

TEST(OptimizerUpdate, NamesItsState) {
  const auto device = make_cpu_device(1);
  const auto state_of = [&](OptimizerKind kind, DType dtype, DType state_dtype) {
    OptimizerOptions options = options_of(kind);
    options.state_dtype = state_dtype;
    const auto executor = make_update(dtype, options, *device);
    std::vector<std::string> found;
    for (const Value& value : executor->graph().values()) {
      if (value.role != Role::optimizer_state) continue;
      EXPECT_EQ(value.type.dtype, value.name.starts_with("low.") ? DType::i16 : state_dtype) << value.name;
      if (value.name.ends_with(".matrix")) found.push_back(value.name);
    }
    return found;
  };
  using Names = std::vector<std::string>;
  const Names moments = {"moment1.matrix", "moment2.matrix"};
  EXPECT_EQ(state_of(OptimizerKind::adamw, DType::f32, DType::f32), moments);
  EXPECT_EQ(state_of(OptimizerKind::lamb, DType::f32, DType::bf16), moments);
  EXPECT_EQ(state_of(OptimizerKind::lamb, DType::bf16, DType::bf16), moments);
  EXPECT_EQ(state_of(OptimizerKind::adamw, DType::bf16, DType::f32),
            (Names{"moment1.matrix", "moment2.matrix", "low.matrix"}));
  EXPECT_EQ(state_of(OptimizerKind::sgd, DType::bf16, DType::f32), (Names{"momentum.matrix", "low.matrix"}));
}

TEST(OptimizerUpdate, RefusesNothingToUpdate) {
  Graph empty;
  EXPECT_THROW(append_optimizer(empty, {}, {}), Error);
}

}  // namespace
}  // namespace tessera
