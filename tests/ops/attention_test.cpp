#include "tessera/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/op_check.h"
#include "tessera/base/philox.h"
#include "tessera/ops/dropout_add.h"

namespace tessera {
namespace {

// What a probability is multiplied by, after the counters of ops/attention_dropout.h.
double naive_factor(const AttentionAttrs& attrs, const std::vector<double>& key, std::int64_t seq_len,
                    std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  if (!attrs.drops()) return 1;
  const auto word = [&](std::size_t i) {
    return std::uint64_t{static_cast<std::uint32_t>(static_cast<std::int32_t>(key[i]))};
  };
  const std::int64_t sequence = static_cast<std::int64_t>(key[3]) + b;
  const std::int64_t row = (sequence * attrs.heads.heads + h) * seq_len + q;
  const auto block = static_cast<std::uint64_t>(row * ((seq_len + 7) / 8) + k / 8);
  const auto stream = static_cast<std::uint64_t>(attrs.stream);
  const PhiloxBlock numbers = philox(word(0) + (word(1) << 32), (stream << 48) + block, word(2));
  const std::uint32_t bits = numbers[static_cast<std::size_t>(k % 8 / 2)] >> (k % 2 * 16) & 0xffff;
  const double threshold = std::round(attrs.dropout * 65536);
  return bits >= threshold ? 65536 / (65536 - threshold) : 0;
}

// softmax over an explicit row of scores, head by head.
std::vector<double> naive_attention(const std::vector<double>& qkv, std::int64_t batch, std::int64_t seq_len,
                                    const AttentionAttrs& attrs, const std::vector<double>& key_counts,
                                    const std::vector<double>& dropout_key = {}) {
  const HeadLayout& heads = attrs.heads;
  const std::int64_t d = heads.head_dim, columns = heads.qkv_columns();
  std::vector<double> out(static_cast<std::size_t>(batch * seq_len * heads.out_columns()), 0.0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads.heads; ++h) {
      const std::int64_t kv = h / (heads.heads / heads.kv_heads);
      for (std::int64_t q = 0; q < seq_len; ++q) {
        const std::int64_t num_keys =
            std::min(attrs.causal ? q + 1 : seq_len, static_cast<std::int64_t>(key_counts[b]));
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t k = 0; k < num_keys; ++k) {
          double score = 0;
          for (std::int64_t i = 0; i < d; ++i) {
            score += qkv[(b * seq_len + q) * columns + h * d + i] *
                     qkv[(b * seq_len + k) * columns + (heads.heads + kv) * d + i];
          }
          weights.push_back(std::exp(attrs.scale * score));
          total += weights.back();
        }
        for (std::int64_t k = 0; k < num_keys; ++k) {
          for (std::int64_t i = 0; i < d; ++i) {
            out[(b * seq_len + q) * heads.out_columns() + h * d + i] +=
                naive_factor(attrs, dropout_key, seq_len, b, h, q, k) * weights[k] / total *
                qkv[(b * seq_len + k) * columns + (heads.heads + heads.kv_heads + kv) * d + i];
          }
        }
      }
    }
  }
  return out;
}

OpCase attention_case(std::int64_t batch, std::int64_t seq_len, const HeadLayout& heads, bool causal) {
  const AttentionAttrs attrs{heads, 0.6, causal};
  const Shape shape{batch, seq_len, heads.qkv_columns()};
  return {"attention" + shape.text() + Attrs(attrs).text(),
          [=](CaseGraph& c) { return attention(c.graph, "node", c.real("qkv", shape), attrs); },
          [=](const CaseValues& in) {
            const std::vector<double> all(static_cast<std::size_t>(batch), static_cast<double>(seq_len));
            return naive_attention(in.at("qkv"), batch, seq_len, attrs, all);
          }};
}

OpCase padded_case(std::int64_t seq_len, const HeadLayout& heads, bool causal,
                   const std::vector<double>& counts) {
  const AttentionAttrs attrs{heads, 0.6, causal};
  const auto batch = static_cast<std::int64_t>(counts.size());
  const Shape shape{batch, seq_len, heads.qkv_columns()};
  return {"padded attention" + shape.text() + Attrs(attrs).text(),
          [=](CaseGraph& c) {
            const ValueId qkv = c.real("qkv", shape);
            return attention(c.graph, "node", qkv, attrs, c.constant("counts", i32({batch, 1}), counts));
          },
          [=](const CaseValues& in) {
            return naive_attention(in.at("qkv"), batch, seq_len, attrs, in.at("counts"));
          }};
}

// The key fixes what is dropped, so that the op is an ordinary function of qkv.
OpCase dropped_case(std::int64_t batch, std::int64_t seq_len, const HeadLayout& heads, bool causal,
                    bool padded) {
  const AttentionAttrs attrs{.heads = heads, .scale = 0.6, .causal = causal, .dropout = 0.3, .stream = 5};
  const Shape shape{batch, seq_len, heads.qkv_columns()};
  const std::vector<double> counts(static_cast<std::size_t>(batch),
                                   static_cast<double>(padded ? 3 : seq_len));
  return {"attention with dropout" + shape.text() + Attrs(attrs).text() + (padded ? " padded" : ""),
          [=](CaseGraph& c) {
            const ValueId qkv = c.real("qkv", shape);
            const ValueId key_counts = padded ? c.constant("counts", i32({batch, 1}), counts) : kNoValue;
            const ValueId key = c.constant("key", kDropoutKeyType, {12, -7, 3, 1});
            return attention(c.graph, "node", qkv, attrs, key_counts, key);
          },
          [=](const CaseValues& in) {
            return naive_attention(in.at("qkv"), batch, seq_len, attrs, counts, in.at("key"));
          }};
}

}  // namespace

OpFamily attention_family() {
  OpFamily family;
  for (bool causal : {false, true}) {
    family.cases.push_back(attention_case(1, 1, {1, 1, 1}, causal));
    family.cases.push_back(attention_case(2, 5, {2, 2, 3}, causal));
    family.cases.push_back(attention_case(1, 7, {4, 2, 2}, causal));
    family.cases.push_back(attention_case(1, 9, {3, 1, 4}, causal));
    family.cases.push_back(attention_case(1, 67, {2, 1, 2}, causal));  // more than one block of keys
    family.cases.push_back(padded_case(5, {2, 2, 3}, causal, {5, 1, 3}));
    family.cases.push_back(padded_case(7, {4, 2, 2}, causal, {4}));
    family.cases.push_back(dropped_case(2, 5, {2, 2, 3}, causal, false));
    family.cases.push_back(dropped_case(1, 67, {2, 1, 2}, causal, false));
    family.cases.push_back(dropped_case(2, 9, {4, 2, 2}, causal, true));
  }
  const AttentionAttrs attrs{{2, 1, 4}, 1.0, true};
  const AttentionAttrs drops{.heads = {2, 1, 4}, .dropout = 0.1};
  const ValueType qkv = f64({2, 5, 16}), out = f64({2, 5, 8}), lse = f64({2, 2, 5});
  const ValueType keys = f64({2, 1, 4, 64}), values = f64({2, 1, 64, 4});
  family.refused = {
      {Op::attention, attrs, {f64({2, 5, 12})}, {"[2,5,12]", "[B, T, 16]"}},
      {Op::attention, attrs, {f64({5, 16})}, {"[5,16]", "[B, T, 16]"}},
      {Op::attention, attrs, {i32({2, 5, 16})}, {"i32", "floating"}},
      {Op::attention,
       AttentionAttrs{{3, 2, 4}, 1.0, true},
       {f64({2, 5, 28})},
       {"3 query heads", "2 key heads"}},
      {Op::attention, attrs, {qkv, f64({2, 1})}, {"input 1", "f64", "i32"}},
      {Op::attention, attrs, {qkv, i32({2, 5})}, {"[2,5]", "[2,1]"}},
      {Op::attention, drops, {qkv}, {"1 inputs"}},
      {Op::attention, drops, {qkv, i32({2, 1})}, {"i32[2,1]", "i32[4]"}},
      {Op::attention,
       AttentionAttrs{.heads = {2, 1, 4}, .dropout = 1},
       {qkv, kDropoutKeyType},
       {"dropout is 1"}},
      {Op::attention, AttentionAttrs{{2, 1, 4}, 0.0, true}, {qkv}, {"scale is 0", "more than 0"}},
      {Op::attention_grad, AttentionAttrs{{2, 1, 4}, -0.5, true}, {out, qkv, out, lse}, {"scale is -0.5"}},
      {Op::attention_grad, drops, {out, qkv, out, lse, i32({2, 1})}, {"i32[2,1]", "i32[4]"}},
      {Op::attention_grad, attrs, {out, qkv, out, lse, i32({1, 1})}, {"[1,1]", "[2,1]"}},
      {Op::attention_grad, attrs, {f64({2, 5, 16}), qkv, out, lse}, {"f64[2,5,16]", "f64[2,5,8]"}},
      {Op::attention_grad, attrs, {out, f64({2, 5, 12}), out, lse}, {"[2,5,12]", "[B, T, 16]"}},
      {Op::attention_grad, attrs, {out, qkv, f32({2, 5, 8}), lse}, {"f32[2,5,8]", "f64[2,5,8]"}},
      {Op::attention_grad, attrs, {out, qkv, out, f64({2, 5, 2})}, {"f64[2,5,2]", "f64[2,2,5]"}},
      {Op::cached_attention, attrs, {f64({2, 5, 12}), keys, values, i32({1})}, {"[2,5,12]", "[B, T, 16]"}},
      {Op::cached_attention,
       attrs,
       {qkv, f64({2, 1, 4, 63}), values, i32({1})},
       {"[2,1,4,63]", "multiple of 64"}},
      {Op::cached_attention,
       attrs,
       {qkv, keys, f64({2, 1, 4, 64}), i32({1})},
       {"f64[2,1,4,64]", "f64[2,1,64,4]"}},
      {Op::cached_attention, attrs, {qkv, keys, values, i32({2})}, {"[2]", "[1]"}},
      {Op::cached_attention,
       AttentionAttrs{{2, 1, 4}, 1.0, false},
       {qkv, keys, values, i32({1})},
       {"causal"}},
  };
  return family;
}

}  // namespace tessera
