// Generator: continues a sequence of ids, one sampled token at a time. Keys and values of the tokens so far
// stay in caches on the device: a token costs one pass of one token, whatever stands before it. Prompts are
// read in blocks by a second graph, which fills the same caches and computes no logits. Made by `tessera
// generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/sampling.h"

namespace tessera {

class Generator {
 public:
  // Sees at most the last `context` tokens of a text, at most the model's positions; the caches are as large.
  // Reads the parameters of `weights_of`, which must outlive it. Nothing is allocated afterwards.
  Generator(const Model& model, DType dtype, Device& device, const Executor& weights_of,
            std::int64_t context);

  // Appends up to num_tokens ids, each handed to on_token, which returns false to stop. A text that outgrows
  // the context goes on from its most recent half, which is read anew as a prompt: positions would otherwise
  // be those of tokens that are gone.
  void extend(std::vector<std::int32_t>& ids, std::int64_t num_tokens, const SamplingOptions& options,
              const std::function<bool(std::int32_t)>& on_token);

  // Of the token behind these, 1 to context() of them. What the caches already hold of them is not computed
  // again. Valid until the next call.
  std::span<const float> next_logits(std::span<const std::int32_t> ids);

  std::int64_t context() const { return context_; }

 private:
  void run(Executor& executor, std::span<const std::int32_t> ids, std::size_t first);
  void read_logits();

  Device& device_;
  std::int64_t context_;
  std::size_t block_;                         // tokens of a prompt that are read at a time
  std::unique_ptr<Executor> prompt_, token_;  // the second works on the caches of the first
  std::vector<std::int32_t> cached_;          // ids whose keys and values the caches hold
  std::vector<std::int32_t> padded_;          // a block
  std::vector<std::byte> raw_;                // logits as the device has them
  std::vector<float> logits_;
};

}  // namespace tessera
