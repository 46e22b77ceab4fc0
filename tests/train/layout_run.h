// LayoutRun: a short training of a small model on any layout, and everything it leaves behind: losses,
// gradient norms, the first step's gradients, and all weights and moments at the end, whole. Used by the
// tests that compare layouts.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/larger_error.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {

struct LayoutRun {
  const Model& model;
  Layout layout = {};
  std::int64_t seq_len = 12;
  std::int64_t global_batch = 8;
  std::int64_t micro_batch = 1;  // sequences
  std::int64_t steps = 3;
  DType dtype = DType::f32;
  std::string recompute = "none";
  bool whole_steps = false;  // each in one call: no gradients to look at
};

struct LayoutTrace {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<float>> tensors;
};

// Scored tokens are spread unevenly: sequence 2 has none, the others lack every fifth to eleventh.
inline void fill_batch(const LayoutRun& run, std::int64_t step, std::vector<std::int32_t>& ids,
                       std::vector<std::int32_t>& targets) {
  const std::int64_t vocab = run.model.vocab_size();
  ids.clear();
  targets.clear();
  for (std::int64_t b = 0; b < run.global_batch; ++b) {
    for (std::int64_t t = 0; t < run.seq_len; ++t) {
      const std::int64_t i = (step * run.global_batch + b) * run.seq_len + t;
      ids.push_back(static_cast<std::int32_t>((i * i + 7 * i + 3) % vocab));
      const bool scored = b != 2 && t % (5 + b % 7) != 0;
      targets.push_back(scored ? static_cast<std::int32_t>((5 * i + b) % vocab) : -1);
    }
  }
}

inline LayoutTrace train_rank(const LayoutRun& run, Communicator* world) {
  Layout layout = run.layout;
  layout.num_micro_batches = static_cast<int>(run.global_batch / (run.micro_batch * layout.mesh.dp));
  const auto device = make_cpu_device(1);
  TrainingGraphOptions options{.shape = {run.micro_batch, run.seq_len}, .dtype = run.dtype};
  options.optimizer = {.weight_decay = 0.1, .clip_norm = 0.5};  // clips in every step
  options.recompute = parse_recompute(run.recompute, "recompute");
  TrainingStep step(run.model, options, layout, /*seed=*/11, *device, world);
  initialize_weights(step.weights(), step.parameters(), 3);
  LayoutTrace trace;
  std::vector<std::int32_t> ids, targets;
  for (std::int64_t s = 0; s < run.steps; ++s) {
    fill_batch(run, s, ids, targets);
    if (run.whole_steps) {
      const StepResult result = step.run(ids, targets, s, 1e-2);
      trace.losses.push_back(result.loss);
      trace.norms.push_back(result.grad_norm);
      continue;
    }
    trace.losses.push_back(step.accumulate_gradients(ids, targets, s));
    for (const PlacedTensor& tensor : step.state()) {
      if (s == 0 && tensor.role == Role::gradient)
        trace.tensors[tensor.name] = step.weights().read(tensor.name);
    }
    trace.norms.push_back(step.update(s, 1e-2));
  }
  for (const PlacedTensor& tensor : step.state()) {
    if (tensor.role != Role::gradient) trace.tensors[tensor.name] = step.weights().read(tensor.name);
  }
  return trace;
}

// Rank 0's trace; the others read the same whole tensors.
inline LayoutTrace train_on(const LayoutRun& run) {
  const int num_ranks = run.layout.mesh.num_ranks();
  if (num_ranks == 1) return train_rank(run, nullptr);
  LayoutTrace first;
  run_local_ranks(num_ranks, [&](Communicator& world) {
    LayoutTrace trace = train_rank(run, &world);
    if (world.rank() == 0) first = std::move(trace);
  });
  return first;
}

inline void expect_same_bits(const LayoutTrace& a, const LayoutTrace& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, values] : a.tensors) {
    const std::vector<float>& other = b.tensors.at(name);
    ASSERT_EQ(values.size(), other.size()) << name;
    EXPECT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(float)), 0) << name;
  }
}

// The largest relative difference of each kind: losses and norms by value, tensors by their L2 norm. NaN
// where anything is.
struct LayoutDifference {
  double loss = 0, norm = 0, gradient = 0, weight = 0;
};
inline LayoutDifference difference(const LayoutTrace& found, const LayoutTrace& wanted) {
  TS_CHECK(found.losses.size() == wanted.losses.size() && found.norms.size() == wanted.losses.size() &&
               wanted.norms.size() == wanted.losses.size() && found.tensors.size() == wanted.tensors.size(),
           "found {} losses, {} norms and {} tensors, expected {}, {} and {}", found.losses.size(),
           found.norms.size(), found.tensors.size(), wanted.losses.size(), wanted.norms.size(),
           wanted.tensors.size());
  LayoutDifference d;
  for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
    d.loss = larger_error(d.loss, std::abs(found.losses[i] / wanted.losses[i] - 1));
    d.norm = larger_error(d.norm, std::abs(found.norms[i] / wanted.norms[i] - 1));
  }
  for (const auto& [name, values] : wanted.tensors) {
    if (name.starts_with("moment")) continue;
    const std::vector<float>& other = found.tensors.at(name);
    TS_CHECK(other.size() == values.size(), "{}: found {} elements, expected {}", name, other.size(),
             values.size());
    double off = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      off += std::pow(static_cast<double>(other[i]) - static_cast<double>(values[i]), 2);
      size += std::pow(static_cast<double>(values[i]), 2);
    }
    double& worst = name.starts_with("grad.") ? d.gradient : d.weight;
    worst = larger_error(worst, std::sqrt(off / std::max(size, 1e-30)));
  }
  return d;
}

}  // namespace tessera
