// Sampler: chooses the next token from a model's logits. Temperature first, then the most likely top_k, then
// of those the fewest that together have a probability of top_p: the order in which transformers applies
// them. Used by Generator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 50;   // 0: all
  double top_p = 1.0;        // 1: all; at least one token is left whatever it is
  std::uint64_t seed = 1;
};

// The error names the option that has no meaning, as the command line calls it.
void check_sampling(const SamplingOptions& options);

class Sampler {
 public:
  // All it ever needs is allocated here.
  Sampler(const SamplingOptions& options, std::int64_t vocab_size);

  // From logits[vocab_size]: number `draw` of the random stream that the seed names. Ties are broken by id,
  // so that the same logits give the same token.
  std::int32_t pick(std::span<const float> logits, std::uint64_t draw);

 private:
  void sort_up_to(std::size_t count, std::span<const float> logits);
  double weight(std::size_t rank, std::span<const float> logits, double top) const;

  SamplingOptions options_;
  std::vector<std::int32_t> order_;  // ids; the first num_sorted_ by likelihood, the others less likely
  std::vector<double> cumulative_;
  std::size_t num_sorted_ = 0;
};

}  // namespace tessera
