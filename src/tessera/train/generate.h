// Generator: continues a sequence of ids, one sampled token at a time. The context is computed anew for
// every token, in graphs whose length doubles as the text grows, so a short text does not pay for the
// longest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"

namespace tessera {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 50;   // 0: all
  std::uint64_t seed = 1;
};

// Picks from logits[V]; number `draw` of the stream named by the seed.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t draw);

class Generator {
 public:
  // Reads the parameters of `weights_of`, which must outlive it.
  Generator(const Model& model, DType dtype, Device& device, const Executor& weights_of);

  // Appends up to num_tokens ids, each handed to on_token, which returns false to stop. When the text
  // outgrows the model's positions, its most recent half is the context.
  void extend(std::vector<std::int32_t>& ids, std::int64_t num_tokens, const SamplingOptions& options,
              const std::function<bool(std::int32_t)>& on_token);

 private:
  std::vector<float> next_logits(std::span<const std::int32_t> context);

  const Model& model_;
  DType dtype_;
  Device& device_;
  const Executor& weights_of_;
  std::map<std::int64_t, std::unique_ptr<Executor>> by_length_;
};

}  // namespace tessera
