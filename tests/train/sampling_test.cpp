// Which tokens may be drawn, and how often, against a naive implementation: sort all, soften, cut twice.
#include "tessera/train/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

std::vector<float> some_logits(std::size_t count) {
  std::vector<float> logits(count);
  // Rounded, so that there are ties.
  for (std::size_t i = 0; i < count; ++i) logits[i] = std::round(8 * philox_normal(3, 5, i)) / 4;
  return logits;
}

struct Candidate {
  std::int32_t id;
  double probability;
};

std::vector<Candidate> naive_candidates(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    all.push_back(
        {static_cast<std::int32_t>(i), std::exp(static_cast<double>(logits[i]) / options.temperature)});
  }
  if (options.top_k > 0 || options.top_p < 1) {
    std::ranges::stable_sort(all, std::ranges::greater{}, &Candidate::probability);
  }
  const auto normalize = [&] {
    double sum = 0;
    for (const Candidate& c : all) sum += c.probability;
    for (Candidate& c : all) c.probability /= sum;
  };
  if (options.top_k > 0) all.resize(std::min(all.size(), static_cast<std::size_t>(options.top_k)));
  normalize();
  double before = 0;  // transformers' rule: a token stays if those before it have less than top_p
  std::size_t count = 0;
  while (count < all.size() && (options.top_p >= 1 || before < options.top_p))
    before += all[count++].probability;
  all.resize(count);
  normalize();
  return all;
}

const std::vector<SamplingOptions> kOptions = {
    {.temperature = 1, .top_k = 0, .top_p = 1},    {.temperature = 0.7, .top_k = 5, .top_p = 1},
    {.temperature = 1, .top_k = 0, .top_p = 0.6},  {.temperature = 1.5, .top_k = 40, .top_p = 0.8},
    {.temperature = 2, .top_k = 0, .top_p = 0.99}, {.temperature = 1, .top_k = 1000, .top_p = 0.3},
    {.temperature = 1, .top_k = 0, .top_p = 1e-9}, {.temperature = 0.8, .top_k = 1, .top_p = 1},
};

TEST(Sampling, DrawsWhatTheNaiveImplementationDraws) {
  for (const std::size_t vocab : {1u, 2u, 300u, 5000u}) {
    const std::vector<float> logits = some_logits(vocab);
    for (SamplingOptions options : kOptions) {
      options.seed = 9;
      SCOPED_TRACE(fmt::format("{} tokens, temperature {}, top-k {}, top-p {}", vocab, options.temperature,
                               options.top_k, options.top_p));
      const std::vector<Candidate> candidates = naive_candidates(logits, options);
      Sampler sampler(options, static_cast<std::int64_t>(vocab));
      for (std::uint64_t draw = 0; draw < 200; ++draw) {
        double left = philox_uniform(philox(options.seed, draw)[0]);
        std::size_t chosen = 0;
        while (chosen + 1 < candidates.size() && left > candidates[chosen].probability) {
          left -= candidates[chosen++].probability;
        }
        ASSERT_EQ(sampler.pick(logits, draw), candidates[chosen].id) << "draw " << draw;
      }
    }
  }
}

TEST(Sampling, TokensComeAsOftenAsTheirProbabilitySays) {
  const std::vector<float> logits = some_logits(300);
  constexpr int kDraws = 20000;
  for (const SamplingOptions& options : kOptions) {
    Sampler sampler(options, 300);
    std::map<std::int32_t, int> counts;
    for (std::uint64_t draw = 0; draw < kDraws; ++draw) ++counts[sampler.pick(logits, draw)];
    for (const Candidate& c : naive_candidates(logits, options)) {
      const double deviation = std::sqrt(kDraws * c.probability * (1 - c.probability));
      EXPECT_NEAR(counts[c.id], kDraws * c.probability, 5 * deviation + 1) << "token " << c.id;
      counts.erase(c.id);
    }
    EXPECT_TRUE(counts.empty()) << "drew token " << counts.begin()->first;
  }
}

TEST(Sampling, WithoutTemperatureTheLikeliestTokenAndOfEqualsTheFirst) {
  Sampler sampler({.temperature = 0}, 5);
  EXPECT_EQ(sampler.pick(std::vector<float>{1, 3, 2, 3, 0}, 0), 1);
  EXPECT_EQ(sampler.pick(std::vector<float>{1, 3, 2, 4, 0}, 1), 3);
}

TEST(Sampling, RefusesLogitsThatAreNoNumbers) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature}, 3);
    expect_error([&] { sampler.pick(std::vector<float>{1, NAN, 2}, 0); }, {"logits are not finite"});
    expect_error([&] { sampler.pick(std::vector<float>{1, INFINITY, 2}, 0); }, {"logits are not finite"});
  }
}

TEST(Sampling, RefusesWhatHasNoMeaning) {
  const auto message = [](const SamplingOptions& options) -> std::string {
    try {
      Sampler(options, 3);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({.temperature = -1}), "--temperature: found -1, expected 0 or more");
  EXPECT_EQ(message({.top_k = -2}), "--top-k: found -2, expected 0 or more");
  EXPECT_EQ(message({.top_p = 1.5}), "--top-p: found 1.5, expected more than 0 and at most 1");
  EXPECT_EQ(message({}), "");
}

}  // namespace
}  // namespace tessera
