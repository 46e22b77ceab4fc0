// attention and its gradient against a naive double implementation with an explicit T x T softmax, which
// is itself checked by finite differences.
#include "tessera/backend/cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend_cpu/random_elems.h"
#include "tessera/backend/cpu/attention_grad.h"
#include "tessera/base/philox.h"

namespace tessera::cpu {
namespace {

using Doubles = std::vector<double>;

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// What the probability of (sequence, head, query, key) is multiplied by: the counters of attention_dropout.h,
// one element at a time.
double naive_factor(const AttentionShape& s, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  if (s.dropout.threshold == 0) return 1;
  const auto low = [](std::int32_t x) { return std::uint64_t{static_cast<std::uint32_t>(x)}; };
  const std::uint64_t seed = low(s.dropout_key[0]) + (low(s.dropout_key[1]) << 32),
                      step = low(s.dropout_key[2]);
  const std::int64_t sequence = s.dropout.first_sequence + s.dropout_key[3] + b,
                     head = s.dropout.first_head + h;
  const std::int64_t row = (sequence * s.dropout.all_heads + head) * s.seq + q;
  const std::int64_t block = row * ((s.seq + 7) / 8) + k / 8;
  const PhiloxBlock numbers =
      philox(seed, (s.dropout.stream << 48) + static_cast<std::uint64_t>(block), step);
  const std::uint32_t bits = numbers[index(k % 8 / 2)] >> (k % 2 * 16) & 0xffff;
  return bits >= s.dropout.threshold ? 65536.0 / (65536.0 - s.dropout.threshold) : 0;
}

// One query's probabilities over all keys, zero where masked; returns the log-sum-exp.
double naive_row(const AttentionShape& s, const Doubles& qkv, std::int64_t b, std::int64_t h, std::int64_t q,
                 Doubles& probs) {
  const std::int64_t kv = h / (s.num_heads / s.num_kv_heads), w = s.qkv_width(), d = s.head_dim;
  const double* query = &qkv[index((b * s.seq + q) * w + h * d)];
  double total = 0, max = -INFINITY;
  for (std::int64_t k = 0; k < s.seq; ++k) {
    const double* key = &qkv[index((b * s.seq + k) * w + (s.num_heads + kv) * d)];
    double score = 0;
    for (std::int64_t i = 0; i < d; ++i) score += query[i] * key[i];
    const bool seen = k < s.num_keys(b) && (!s.causal || k <= q);
    probs[index(k)] = seen ? s.scale * score : -INFINITY;
    max = std::max(max, probs[index(k)]);
  }
  for (double& p : probs) total += p = std::exp(p - max);
  for (double& p : probs) p /= total;
  return max + std::log(total);
}

struct Naive {
  Doubles out, lse, dqkv;
};

// dqkv is left zero if dout is empty.
Naive naive_attention(const AttentionShape& s, const Doubles& qkv, const Doubles& dout) {
  const std::int64_t w = s.qkv_width(), d = s.head_dim, group = s.num_heads / s.num_kv_heads;
  Naive result;
  result.out.assign(index(s.batch * s.seq * s.out_width()), 0);
  result.lse.assign(index(s.batch * s.num_heads * s.seq), 0);
  result.dqkv.assign(qkv.size(), 0);
  Doubles probs(index(s.seq)), dprobs(index(s.seq)), factors(index(s.seq));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.num_heads; ++h) {
      const std::int64_t key_at = b * s.seq * w + (s.num_heads + h / group) * d;
      const std::int64_t value_at = key_at + s.num_kv_heads * d;
      for (std::int64_t q = 0; q < s.seq; ++q) {
        result.lse[index((b * s.num_heads + h) * s.seq + q)] = naive_row(s, qkv, b, h, q, probs);
        const std::int64_t out_at = (b * s.seq + q) * s.out_width() + h * d;
        for (std::int64_t k = 0; k < s.seq; ++k) {
          factors[index(k)] = naive_factor(s, b, h, q, k);
          for (std::int64_t i = 0; i < d; ++i) {
            result.out[index(out_at + i)] +=
                factors[index(k)] * probs[index(k)] * qkv[index(value_at + k * w + i)];
          }
        }
        if (dout.empty()) continue;
        double delta = 0;
        for (std::int64_t k = 0; k < s.seq; ++k) {
          dprobs[index(k)] = 0;
          for (std::int64_t i = 0; i < d; ++i) {
            dprobs[index(k)] += dout[index(out_at + i)] * qkv[index(value_at + k * w + i)];
          }
          dprobs[index(k)] *= factors[index(k)];
          delta += probs[index(k)] * dprobs[index(k)];
        }
        const std::int64_t query_at = (b * s.seq + q) * w + h * d;
        for (std::int64_t k = 0; k < s.seq; ++k) {
          const double dscore = s.scale * probs[index(k)] * (dprobs[index(k)] - delta);
          for (std::int64_t i = 0; i < d; ++i) {
            result.dqkv[index(query_at + i)] += dscore * qkv[index(key_at + k * w + i)];
            result.dqkv[index(key_at + k * w + i)] += dscore * qkv[index(query_at + i)];
            result.dqkv[index(value_at + k * w + i)] +=
                factors[index(k)] * probs[index(k)] * dout[index(out_at + i)];
          }
        }
      }
    }
  }
  return result;
}

template <class S>
Doubles widened(const std::vector<S>& v) {
  Doubles d;
  for (const S x : v) d.push_back(wide(x));
  return d;
}

template <class S>
struct Result {
  std::vector<S> out, dqkv;
  std::vector<Compute<S>> lse;
};

template <class S>
Result<S> run(const AttentionShape& s, const std::vector<S>& qkv, const std::vector<S>& dout,
              int num_threads) {
  ThreadPool pool(num_threads);
  Result<S> r;
  r.out.resize(dout.size());
  r.dqkv.assign(qkv.size(), S(NAN));  // every element must be written
  r.lse.resize(index(s.batch * s.num_heads * s.seq));
  std::vector<std::byte> workspace(index(attention_workspace_bytes(s, dtype_of<S>, num_threads)),
                                   std::byte{0xff});
  attention<S>(pool, s, qkv, r.out, r.lse, workspace);
  workspace.assign(index(attention_grad_workspace_bytes(s, dtype_of<S>, num_threads)), std::byte{0xff});
  attention_grad<S>(pool, s, {.qkv = qkv, .out = r.out, .lse = r.lse, .dout = dout, .dqkv = r.dqkv},
                    workspace);
  return r;
}

double relative_error(const Doubles& found, const Doubles& expected) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

template <class S>
void check(const AttentionShape& s, double bound) {
  SCOPED_TRACE(::testing::Message() << "seq " << s.seq << " head_dim " << s.head_dim << " heads "
                                    << s.num_heads << "/" << s.num_kv_heads << " causal " << s.causal);
  const auto qkv = random_elems<S>(s.batch * s.seq * s.qkv_width(), 1);
  const auto dout = random_elems<S>(s.batch * s.seq * s.out_width(), 2);
  const Result<S> found = run(s, qkv, dout, 2);
  const Naive expected = naive_attention(s, widened(qkv), widened(dout));
  EXPECT_LE(relative_error(widened(found.out), expected.out), bound);
  EXPECT_LE(relative_error(widened(found.dqkv), expected.dqkv), bound);
  for (std::size_t i = 0; i < found.lse.size(); ++i) {
    EXPECT_NEAR(found.lse[i], expected.lse[i],
                (sizeof(found.lse[i]) == 8 ? 1e-14 : 1e-6) * (1 + std::fabs(expected.lse[i])));
  }
}

AttentionShape shape(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t head_dim, bool causal) {
  return {batch, seq, heads, kv_heads, head_dim, causal, 1 / std::sqrt(static_cast<double>(head_dim))};
}

template <class S>
void check_shapes(double bound) {
  for (const bool causal : {true, false}) {
    check<S>(shape(2, 1, 1, 1, 4, causal), bound);
    check<S>(shape(2, 7, 4, 2, 4, causal), bound);
    check<S>(shape(1, 129, 6, 2, 16, causal), bound);
    check<S>(shape(3, 61, 2, 2, 20, causal), bound);
    check<S>(shape(1, 317, 2, 1, 64, causal), bound);
    check<S>(shape(1, 256, 1, 1, 128, causal), bound);
    check<S>(shape(1, 1250, 1, 1, 8, causal), bound);  // more keys than are scored at once, also twice
  }
  check<S>(shape(9, 40, 4, 4, 8, true), bound);  // heads enough for one chunk each
}

TEST(Attention, FloatMatchesTheNaiveSoftmax) {
  check_shapes<float>(1e-6);
}
TEST(Attention, DoubleMatchesTheNaiveSoftmax) {
  check_shapes<double>(1e-14);
}
// Stored results have 8 bits; the gradient also sees `out` rounded to them.
TEST(Attention, Bf16MatchesTheNaiveSoftmax) {
  check_shapes<Bf16>(0x1p-7);
}

// Padding at the end of a sequence, also of whole blocks and chunks of keys.
template <class S>
void check_padding(double bound) {
  for (const bool causal : {true, false}) {
    const std::vector<std::int32_t> counts = {1, 7, 60, 97, 200, 317};
    AttentionShape some = shape(6, 317, 4, 2, 16, causal);
    some.key_counts = counts;
    check<S>(some, bound);
    AttentionShape one = shape(1, 317, 2, 1, 64, causal);
    for (const std::int32_t count : {1, 96, 150, 317}) {
      one.key_counts = {&count, 1};
      check<S>(one, bound);
    }
    AttentionShape longer = shape(1, 700, 1, 1, 8, causal);
    for (const std::int32_t count : {570, 577, 650}) {
      longer.key_counts = {&count, 1};
      check<S>(longer, bound);
    }
  }
}
TEST(Attention, PaddedKeysAreNotSeen) {
  check_padding<float>(1e-6);
  check_padding<double>(1e-14);
  check_padding<Bf16>(0x1p-7);
}

// Seed, step and the first sequence; a shape's dropout as of the second of three ranks that share the heads.
constexpr std::int32_t kDropoutKey[4] = {-5, 77, 1234, 100'000};
AttentionShape dropped(AttentionShape s, double rate) {
  AttentionAttrs attrs{.heads = {s.num_heads, s.num_kv_heads, s.head_dim}, .dropout = rate, .stream = 9};
  attrs.head_range = {true, Axis::tp, 3 * s.num_heads, 3};
  s.dropout = attention_dropout(attrs, s.num_heads, 2);
  s.dropout_key = kDropoutKey;
  return s;
}

template <class S>
void check_dropout(double bound) {
  const std::vector<std::int32_t> counts = {1, 97, 130};
  for (const bool causal : {true, false}) {
    for (const double rate : {0.1, 0.6}) {
      check<S>(dropped(shape(2, 7, 4, 2, 4, causal), rate), bound);
      check<S>(dropped(shape(1, 129, 6, 2, 16, causal), rate), bound);
      check<S>(dropped(shape(1, 317, 2, 1, 64, causal), rate), bound);
      check<S>(dropped(shape(1, 700, 1, 1, 8, causal), rate), bound);
      AttentionShape padded = dropped(shape(3, 131, 2, 1, 20, causal), rate);
      padded.key_counts = counts;
      check<S>(padded, bound);
    }
  }
}
TEST(Attention, DroppedProbabilitiesAreThoseOfTheCounters) {
  check_dropout<float>(1e-6);
  check_dropout<double>(1e-14);
  check_dropout<Bf16>(0x1p-7);
}

TEST(Attention, NaiveGradientMatchesFiniteDifferences) {
  const AttentionShape s = shape(1, 5, 4, 2, 3, true);
  Doubles qkv = random_elems<double>(s.batch * s.seq * s.qkv_width(), 1);
  const Doubles dout = random_elems<double>(s.batch * s.seq * s.out_width(), 2);
  const Result<double> found = run(s, qkv, dout, 1);
  const auto loss = [&] {
    const Doubles out = naive_attention(s, qkv, {}).out;
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const double x = qkv[i], step = 1e-5;
    qkv[i] = x + step;
    const double above = loss();
    qkv[i] = x - step;
    const double below = loss();
    qkv[i] = x;
    EXPECT_NEAR(found.dqkv[i], (above - below) / (2 * step), 1e-9) << "element " << i;
  }
}

TEST(Attention, LargeScoresStayFinite) {
  AttentionShape s = shape(1, 200, 1, 1, 16, true);
  s.scale = 100;
  check<double>(s, 1e-11);
}

template <class S>
void check_bits(const AttentionShape& s) {
  const auto qkv = random_elems<S>(s.batch * s.seq * s.qkv_width(), 1);
  const auto dout = random_elems<S>(s.batch * s.seq * s.out_width(), 2);
  const Result<S> one = run(s, qkv, dout, 1);
  for (const int num_threads : {2, 3, 5}) {
    const Result<S> many = run(s, qkv, dout, num_threads);
    EXPECT_EQ(std::memcmp(one.out.data(), many.out.data(), one.out.size() * sizeof(S)), 0);
    EXPECT_EQ(std::memcmp(one.dqkv.data(), many.dqkv.data(), one.dqkv.size() * sizeof(S)), 0);
    EXPECT_EQ(one.lse, many.lse);
  }
}

TEST(Attention, BitsDoNotDependOnTheNumberOfThreads) {
  check_bits<float>(shape(1, 700, 4, 2, 32, true));
  check_bits<float>(shape(2, 300, 2, 2, 64, false));
  check_bits<Bf16>(shape(1, 333, 3, 1, 32, true));
  const std::vector<std::int32_t> counts = {300, 123};
  AttentionShape padded = shape(2, 300, 2, 2, 64, false);
  padded.key_counts = counts;
  check_bits<float>(padded);
  check_bits<float>(dropped(shape(1, 700, 4, 2, 32, true), 0.1));
}

// With equal scores and values of one, an output is the sum of a row's factors over the keys seen.
TEST(Attention, AsMuchIsDroppedAsTheRateSays) {
  const AttentionShape s = dropped(shape(3, 256, 8, 8, 1, false), 0.1);
  std::vector<double> qkv(index(s.batch * s.seq * s.qkv_width()), 0.0),
      dout(index(s.batch * s.seq * s.out_width()));
  for (std::int64_t at = 0; at < std::ssize(qkv); ++at) {
    qkv[index(at)] = at % s.qkv_width() >= 2 * s.num_heads ? 1 : 0;
  }
  const Result<double> found = run(s, qkv, dout, 2);
  double sum = 0;
  for (const double x : found.out) sum += x;
  // 1.6 million draws: a deviation of the mean is 2.6e-4 of it.
  EXPECT_NEAR(sum / static_cast<double>(found.out.size()), 1.0, 5 * 2.7e-4);
}

// Of two masks of 64 K elements, the fraction in which both keep: 0.81 if they know nothing of each other.
double both_keep(const AttentionShape& s, std::int64_t b, std::int64_t h, std::int64_t shift) {
  double both = 0;
  for (std::int64_t q = 0; q < s.seq; ++q) {
    for (std::int64_t k = 0; k < s.seq; ++k) {
      both += naive_factor(s, 0, 0, q, k) > 0 && naive_factor(s, b, h, q, (k + shift) % s.seq) > 0;
    }
  }
  return both / static_cast<double>(s.seq * s.seq);
}
TEST(Attention, HeadsSequencesAndNeighboursDropIndependently) {
  const AttentionShape s = dropped(shape(4, 256, 4, 4, 1, false), 0.1);
  const double deviation = std::sqrt(0.81 * 0.19) / 256;
  EXPECT_NEAR(both_keep(s, 0, 1, 0), 0.81, 5 * deviation);
  EXPECT_NEAR(both_keep(s, 1, 0, 0), 0.81, 5 * deviation);
  EXPECT_NEAR(both_keep(s, 0, 0, 1), 0.81, 5 * deviation);
  EXPECT_NEAR(both_keep(s, 0, 0, 8), 0.81, 5 * deviation);
}

TEST(Attention, ScratchGrowsLinearly) {
  const auto bytes = [](std::int64_t seq) {
    const AttentionShape s = shape(1, seq, 12, 12, 64, true);
    return attention_workspace_bytes(s, DType::f32, 2) + attention_grad_workspace_bytes(s, DType::f32, 2);
  };
  EXPECT_LT(bytes(16384), 4.5 * static_cast<double>(bytes(4096)));
}

}  // namespace
}  // namespace tessera::cpu
