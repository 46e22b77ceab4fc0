// The update program against a loop in double over several steps: a matrix that decays and a vector that
// does not, clipped by their common norm.
#include "tessera/optim/adamw_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/base/philox.h"
#include "tessera/runtime/executor.h"

namespace tessera {
namespace {

using Doubles = std::vector<double>;

struct Tensor {
  std::string name;
  Shape shape;
};
const std::vector<Tensor> kTensors = {{"matrix", {5, 7}}, {"vector", {11}}};

Doubles gradient_of_step(const Tensor& tensor, int step, double size) {
  Doubles values;
  for (std::int64_t i = 0; i < tensor.shape.num_elems(); ++i) {
    values.push_back(size * philox_normal(static_cast<std::uint64_t>(step), name_hash(tensor.name), i));
  }
  return values;
}

// torch.optim.AdamW after torch.nn.utils.clip_grad_norm_, in double.
struct NaiveAdamW {
  struct State {
    Doubles weight, moment1, moment2;
    double decay = 0;
  };
  AdamWOptions options;
  std::vector<State> states;

  double step(int t, double learning_rate, const std::vector<Doubles>& gradients) {
    double squares = 0;
    for (const Doubles& gradient : gradients) {
      for (double g : gradient) squares += g * g;
    }
    const double norm = std::sqrt(squares);
    const double clip = options.clip_norm > 0 ? std::min(1.0, options.clip_norm / (norm + 1e-6)) : 1.0;
    for (std::size_t n = 0; n < states.size(); ++n) {
      State& s = states[n];
      for (std::size_t i = 0; i < s.weight.size(); ++i) {
        const double g = clip * gradients[n][i];
        s.weight[i] -= learning_rate * s.decay * s.weight[i];
        s.moment1[i] += (1 - options.beta1) * (g - s.moment1[i]);
        s.moment2[i] += (1 - options.beta2) * (g * g - s.moment2[i]);
        const double mean = s.moment1[i] / (1 - std::pow(options.beta1, t));
        const double square = s.moment2[i] / (1 - std::pow(options.beta2, t));
        s.weight[i] -= learning_rate * mean / (std::sqrt(square) + options.eps);
      }
    }
    return norm;
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

std::unique_ptr<Executor> make_update(DType dtype, const AdamWOptions& options, Device& device) {
  Graph graph;
  std::vector<ParameterGradient> parameters;
  for (const Tensor& tensor : kTensors) {
    const ValueId parameter = graph.add_input(tensor.name, {dtype, tensor.shape}, Role::parameter);
    parameters.push_back(
        {parameter,
         graph.add_input("grad." + tensor.name, {accumulate_dtype(dtype), tensor.shape}, Role::gradient)});
  }
  append_adamw(graph, parameters, options);
  Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); });
  return std::make_unique<Executor>(std::move(graph), std::move(plan), device);
}

// T: the parameters' type, A: that of their state. `tolerance` relative to the weights' size, about 1.
template <class T, class A>
void check_steps(const AdamWOptions& options, double gradient_size, double tolerance) {
  const auto device = make_cpu_device(2);
  const std::unique_ptr<Executor> executor = make_update(dtype_of<T>, options, *device);
  constexpr bool kMaster = std::is_same_v<T, Bf16>;
  NaiveAdamW naive{options, {}};
  for (const Tensor& tensor : kTensors) {
    Doubles start = gradient_of_step(tensor, 1000, 1.0);
    write_doubles<T>(*executor, tensor.name, start);
    if (kMaster) write_doubles<A>(*executor, "master." + tensor.name, start);
    const Doubles zeros(start.size(), 0.0);
    const bool decays = options.decay_1d || tensor.shape.rank() > 1;
    naive.states.push_back({start, zeros, zeros, decays ? options.weight_decay : 0.0});
  }
  for (std::int32_t t = 1; t <= 6; ++t) {
    const double rate = 0.1 / t;
    std::vector<Doubles> gradients;
    for (const Tensor& tensor : kTensors) {
      gradients.push_back(gradient_of_step(tensor, t, gradient_size));
      write_doubles<A>(*executor, "grad." + tensor.name, gradients.back());
    }
    write_doubles<A>(*executor, std::string(kLearningRateInput), {rate});
    executor->write<std::int32_t>(kStepInput, std::vector<std::int32_t>{t});
    executor->run(Phase::update);
    const double norm = naive.step(t, rate, gradients);
    EXPECT_NEAR(static_cast<double>(executor->read_scalar(kGradNormOutput)), norm, 1e-6 * norm);
    for (std::size_t n = 0; n < kTensors.size(); ++n) {
      const std::string& name = kTensors[n].name;
      const Doubles found = read_doubles<A>(*executor, kMaster ? "master." + name : name);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], naive.states[n].weight[i], tolerance)
            << name << " element " << i << ", step " << t;
      }
      // The accumulator is clear for the next step; a bf16 parameter is its master copy rounded.
      EXPECT_EQ(read_doubles<A>(*executor, "grad." + name), Doubles(found.size(), 0.0));
      if (!kMaster) continue;
      const Doubles rounded = read_doubles<T>(*executor, name);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(rounded[i], static_cast<double>(static_cast<float>(Bf16(static_cast<float>(found[i])))));
      }
    }
  }
}

const AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.3, .clip_norm = 1.0};

TEST(AdamWUpdate, ClippedSteps) {
  check_steps<double, double>(kOptions, 3.0, 1e-13);
  check_steps<float, float>(kOptions, 3.0, 2e-6);
}

TEST(AdamWUpdate, StepsBelowTheClipNorm) {
  check_steps<double, double>(kOptions, 0.01, 1e-13);
}

TEST(AdamWUpdate, StepsWithoutClipping) {
  AdamWOptions options = kOptions;
  options.clip_norm = 0;
  check_steps<double, double>(options, 3.0, 1e-13);
}

TEST(AdamWUpdate, DecayOfVectorsToo) {
  AdamWOptions options = kOptions;
  options.decay_1d = true;
  check_steps<double, double>(options, 3.0, 1e-13);
}

TEST(AdamWUpdate, Bf16WithMasterWeights) {
  check_steps<Bf16, float>(kOptions, 3.0, 2e-6);
}

TEST(AdamWUpdate, NamesItsStateAndRefusesNothingToUpdate) {
  const auto device = make_cpu_device(1);
  const auto executor = make_update(DType::bf16, kOptions, *device);
  for (const char* name : {"moment1.matrix", "moment2.matrix", "master.matrix", "moment1.vector"}) {
    const ValueId id = executor->graph().find_input(name);
    ASSERT_NE(id, kNoValue) << name;
    EXPECT_EQ(executor->graph().value(id).role, Role::optimizer_state);
    EXPECT_EQ(executor->graph().type(id).dtype, DType::f32);
  }
  EXPECT_EQ(make_update(DType::f32, kOptions, *device)->graph().find_input("master.matrix"), kNoValue);
  Graph empty;
  EXPECT_THROW(append_adamw(empty, {}, kOptions), Error);
}

}  // namespace
}  // namespace tessera
