#include "tessera/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/philox.h"

namespace tessera {

void check_sampling(const SamplingOptions& options) {
  TS_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
           "--temperature: found {}, expected 0 or more", options.temperature);
  TS_CHECK(options.top_k >= 0, "--top-k: found {}, expected 0 or more", options.top_k);
  TS_CHECK(options.top_p > 0 && options.top_p <= 1, "--top-p: found {}, expected more than 0 and at most 1",
           options.top_p);
}

Sampler::Sampler(const SamplingOptions& options, std::int64_t vocab_size)
    : options_(options),
      order_(static_cast<std::size_t>(vocab_size)),
      cumulative_(static_cast<std::size_t>(vocab_size)) {
  check_sampling(options);
}

// The first `count` of all, not only of those not yet sorted.
void Sampler::sort_up_to(std::size_t count, std::span<const float> logits) {
  count = std::min(count, order_.size());
  if (count <= num_sorted_) return;
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la > lb || (la == lb && a < b);
  };
  const auto at = [&](std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::partial_sort(at(num_sorted_), at(count), order_.end(), likelier);
  num_sorted_ = count;
}

double Sampler::weight(std::size_t rank, std::span<const float> logits, double top) const {
  const auto id = static_cast<std::size_t>(order_[rank]);
  return std::exp((static_cast<double>(logits[id]) - top) / options_.temperature);
}

std::int32_t Sampler::pick(std::span<const float> logits, std::uint64_t draw) {
  TS_ASSERT(logits.size() == order_.size());
  std::iota(order_.begin(), order_.end(), 0);
  num_sorted_ = 0;
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  TS_CHECK(std::isfinite(*likeliest) && std::ranges::none_of(logits, [](float x) { return std::isnan(x); }),
           "the model's logits are not finite: its weights, or what it computes of them, are not numbers");
  if (options_.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  const auto top = static_cast<double>(*likeliest);
  std::size_t count = order_.size();
  if (options_.top_k > 0) count = std::min(count, static_cast<std::size_t>(options_.top_k));
  // Who is beyond top_k is known by sorting; with all tokens in the draw they stand by id.
  if (count < order_.size()) sort_up_to(count, logits);

  double limit = 0;
  for (std::size_t i = 0; options_.top_p < 1 && i < count; ++i)
    limit += options_.top_p * weight(i, logits, top);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // Likely tokens are few: sorting as far as the limit is cheaper than sorting all.
    if (options_.top_p < 1 && i >= num_sorted_) sort_up_to(std::max<std::size_t>(64, 4 * i), logits);
    sum += weight(i, logits, top);
    cumulative_[i] = sum;
    if (options_.top_p < 1 && sum >= limit) count = i + 1;
  }
  const auto last = cumulative_.begin() + static_cast<std::ptrdiff_t>(count);
  const double target = philox_uniform(philox(options_.seed, draw)[0]) * sum;
  const auto chosen = std::lower_bound(cumulative_.begin(), last, target) - cumulative_.begin();
  return order_[std::min(static_cast<std::size_t>(chosen), count - 1)];
}

}  // namespace tessera
