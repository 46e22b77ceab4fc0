// Tokens that continue a text against attention over the whole text, in double.
#include "tessera/ops/cached_attention.h"

#include "backend_cpu/kernel_run.h"
#include "tessera/backend/cpu/kernel_workspace.h"

namespace tessera::cpu {
namespace {

struct CacheCase {
  HeadLayout heads;
  std::int64_t batch, before, tokens, positions;
};

// Row `token` of sequence `b` of a whole text's qkv, as keys or values of a head.
struct Text {
  const CacheCase& c;
  std::vector<double> qkv;

  double at(std::int64_t b, std::int64_t token, std::int64_t column) const {
    const std::int64_t length = c.before + c.tokens;
    return qkv[static_cast<std::size_t>((b * length + token) * c.heads.qkv_columns() + column)];
  }
  double key(std::int64_t b, std::int64_t token, std::int64_t kv, std::int64_t d) const {
    return at(b, token, (c.heads.heads + kv) * c.heads.head_dim + d);
  }
  double value(std::int64_t b, std::int64_t token, std::int64_t kv, std::int64_t d) const {
    return at(b, token, (c.heads.heads + c.heads.kv_heads + kv) * c.heads.head_dim + d);
  }

  // Softmax over an explicit row of scores.
  void attend(std::int64_t b, std::int64_t token, std::int64_t h, double scale,
              std::vector<double>& out) const {
    const std::int64_t kv = h / (c.heads.heads / c.heads.kv_heads);
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t k = 0; k <= token; ++k) {
      double score = 0;
      for (std::int64_t d = 0; d < c.heads.head_dim; ++d) {
        score += at(b, token, h * c.heads.head_dim + d) * key(b, k, kv, d);
      }
      total += weights.emplace_back(std::exp(scale * score));
    }
    for (std::int64_t d = 0; d < c.heads.head_dim; ++d) {
      double sum = 0;
      for (std::int64_t k = 0; k <= token; ++k)
        sum += weights[static_cast<std::size_t>(k)] * value(b, k, kv, d);
      out.push_back(sum / total);
    }
  }
};

// What is behind the first `count` tokens is NaN: nothing may come of it.
std::vector<double> cache_of(const Text& text, std::int64_t count, bool keys) {
  const CacheCase& c = text.c;
  std::vector<double> cache;
  for (std::int64_t i = 0; i < c.batch * c.heads.kv_heads * c.positions * c.heads.head_dim; ++i) {
    const std::int64_t inner = keys ? c.positions : c.heads.head_dim,
                       outer = keys ? c.heads.head_dim : c.positions;
    const std::int64_t head = i / (inner * outer), first = i / inner % outer, second = i % inner;
    const std::int64_t token = keys ? second : first, d = keys ? first : second;
    const std::int64_t b = head / c.heads.kv_heads, kv = head % c.heads.kv_heads;
    cache.push_back(token >= count ? std::nan("")
                    : keys         ? text.key(b, token, kv, d)
                                   : text.value(b, token, kv, d));
  }
  return cache;
}

void check(DType dtype, const CacheCase& c) {
  SCOPED_TRACE(::testing::Message() << c.before << " + " << c.tokens << " of " << c.positions << " heads "
                                    << c.heads.heads << "/" << c.heads.kv_heads << " of "
                                    << c.heads.head_dim);
  const std::int64_t length = c.before + c.tokens, columns = c.heads.qkv_columns();
  const Text text{c, random_tensor(dtype, {c.batch, length, columns}, 1).values()};
  const AttentionAttrs attrs{c.heads, 1 / std::sqrt(static_cast<double>(c.heads.head_dim)), true};
  std::vector<double> now, wanted;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t t = c.before; t < length; ++t) {
      for (std::int64_t i = 0; i < columns; ++i) now.push_back(text.at(b, t, i));
      for (std::int64_t h = 0; h < c.heads.heads; ++h) text.attend(b, t, h, attrs.scale, wanted);
    }
  }
  const auto found = run_kernel(
      cpu::cached_attention, Op::cached_attention, attrs,
      {HostTensor({dtype, {c.batch, c.tokens, columns}}, now),
       HostTensor(key_cache_type(dtype, c.batch, c.positions, c.heads), cache_of(text, c.before, true)),
       HostTensor(value_cache_type(dtype, c.batch, c.positions, c.heads), cache_of(text, c.before, false)),
       HostTensor({DType::i32, {1}}, {static_cast<double>(c.before)})},
      [](const Graph& graph, const Node& node) { return cached_attention_workspace_bytes(graph, node, 5); });
  expect_close(found[0], wanted, dtype, 4);
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::ranges::equal(a, b,
                              [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
  };
  EXPECT_TRUE(same(found[1], cache_of(text, length, true)));
  EXPECT_TRUE(same(found[2], cache_of(text, length, false)));
}

TEST(CachedAttention, IsAttentionOverTheWholeText) {
  for (DType dtype : kFloatingTypes) {
    check(dtype, {{1, 1, 4}, 1, 0, 1, 64});
    check(dtype, {{4, 4, 64}, 1, 63, 1, 64});
    check(dtype, {{6, 2, 20}, 2, 17, 1, 64});
    check(dtype, {{8, 1, 33}, 1, 130, 3, 192});
    check(dtype, {{3, 3, 80}, 2, 0, 64, 64});
    check(dtype, {{4, 2, 128}, 1, 100, 27, 128});
  }
}

// Tokens behind the last position of the caches write nothing and leave the others as they are.
TEST(CachedAttention, PaddingBehindTheCachesIsLeftOut) {
  const HeadLayout heads{2, 1, 4};
  const AttentionAttrs attrs{heads, 0.5, true};
  const std::int64_t columns = heads.qkv_columns();
  const HostTensor keys = random_tensor(DType::f64, {1, 1, 4, 64}, 2),
                   values = random_tensor(DType::f64, {1, 1, 64, 4}, 3);
  const HostTensor first({DType::i32, {1}}, {62});
  const auto workspace = [](const Graph& graph, const Node& node) {
    return cached_attention_workspace_bytes(graph, node, 5);
  };
  const HostTensor five = random_tensor(DType::f64, {1, 5, columns}, 1);
  std::vector<double> firsts = five.values();
  firsts.resize(static_cast<std::size_t>(2 * columns));
  const HostTensor two({DType::f64, {1, 2, columns}}, firsts);
  const auto padded =
      run_kernel(cpu::cached_attention, Op::cached_attention, attrs, {five, keys, values, first}, workspace);
  const auto fitting =
      run_kernel(cpu::cached_attention, Op::cached_attention, attrs, {two, keys, values, first}, workspace);
  for (const std::size_t cache : {1, 2}) EXPECT_EQ(padded[cache], fitting[cache]);
  for (std::size_t i = 0; i < fitting[0].size(); ++i) EXPECT_NEAR(padded[0][i], fitting[0][i], 1e-14);
}

}  // namespace
}  // namespace tessera::cpu
