// gemm against a naive product in double: every type, orientation and edge.
#include "tessera/backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend_cpu/random_elems.h"

namespace tessera::cpu {
namespace {

struct GemmCase {
  GemmShape shape;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  bool bias = false;
  std::int64_t padding = 0;  // elements between rows
};

template <class A, class B, class C>
struct Problem {
  explicit Problem(const GemmCase& c)
      : test(c),
        lda((c.transpose_a ? c.shape.m : c.shape.k) + c.padding),
        ldb((c.transpose_b ? c.shape.k : c.shape.n) + c.padding),
        ldc(c.shape.n + c.padding),
        a(random_elems<A>((c.transpose_a ? c.shape.k : c.shape.m) * lda, 1)),
        b(random_elems<B>((c.transpose_b ? c.shape.n : c.shape.k) * ldb, 2)),
        c0(random_elems<C>(c.shape.m * ldc, 3)),
        bias(random_elems<B>(c.shape.n, 4)) {
    if (c.beta == 0) {  // what C holds must not be read
      for (C& x : c0) x = C(std::nanf(""));
    }
  }

  std::vector<C> run(int num_threads) const {
    ThreadPool pool(num_threads);
    std::vector<C> c = c0;
    std::vector<std::byte> workspace(
        static_cast<std::size_t>(gemm_workspace_bytes(test.shape, dtype_of<C>, num_threads)));
    Gemm<A, B, C> product;
    product.shape = test.shape;
    product.a = {a.data(), lda, test.transpose_a};
    product.b = {b.data(), ldb, test.transpose_b};
    product.c = {c.data(), ldc};
    product.bias = test.bias ? bias.data() : nullptr;
    product.alpha = test.alpha;
    product.beta = test.beta;
    gemm(pool, product, workspace);
    return c;
  }

  // The exact value of an element, and the size of the terms that its rounding errors scale with.
  std::pair<double, double> expected(std::int64_t i, std::int64_t j) const {
    double sum = 0, size = 0;
    for (std::int64_t k = 0; k < test.shape.k; ++k) {
      const double x = wide(a[static_cast<std::size_t>(test.transpose_a ? k * lda + i : i * lda + k)]);
      const double y = wide(b[static_cast<std::size_t>(test.transpose_b ? j * ldb + k : k * ldb + j)]);
      sum += x * y;
      size += std::fabs(x * y);
    }
    double value = test.alpha * sum;
    size = std::fabs(test.alpha) * size;
    if (test.beta != 0) value += test.beta * wide(c0[static_cast<std::size_t>(i * ldc + j)]);
    if (test.bias) value += wide(bias[static_cast<std::size_t>(j)]);
    return {value, size + std::fabs(value)};
  }

  void check() const {
    const std::vector<C> c = run(2);
    const double epsilon = std::is_same_v<C, double> ? 1e-15 : 1e-6;
    const double rounding =
        std::is_same_v<C, Bf16> ? 0x1p-8 : 0;  // half a step of the stored type, twice over
    for (std::int64_t i = 0; i < test.shape.m; ++i) {
      for (std::int64_t j = 0; j < test.shape.n; ++j) {
        const auto [value, size] = expected(i, j);
        const double found = wide(c[static_cast<std::size_t>(i * ldc + j)]);
        ASSERT_LE(std::fabs(found - value), epsilon * size + rounding * std::fabs(value) + 1e-30)
            << "element " << i << "," << j << " of " << test.shape.m << "x" << test.shape.n << "x"
            << test.shape.k;
      }
      for (std::int64_t j = test.shape.n; j < ldc; ++j) {  // the padding is not ours
        const auto at = static_cast<std::size_t>(i * ldc + j);
        ASSERT_EQ(std::memcmp(&c[at], &c0[at], sizeof(C)), 0);
      }
    }
  }

  GemmCase test;
  std::int64_t lda, ldb, ldc;
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> c0;
  std::vector<B> bias;
};

template <class A, class B, class C>
void check_all_orientations(GemmCase c) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      c.transpose_a = transpose_a;
      c.transpose_b = transpose_b;
      Problem<A, B, C>(c).check();
    }
  }
}

template <class A, class B, class C>
void check_type() {
  const std::vector<GemmCase> cases = {
      {.shape = {1, 1, 1}},
      {.shape = {1, 97, 13}, .padding = 3},
      {.shape = {31, 1, 17}, .bias = true},
      {.shape = {8, 48, 64}},
      {.shape = {67, 149, 53}, .alpha = 0.5, .beta = 1, .padding = 5},
      {.shape = {129, 401, 31}, .beta = 1, .bias = true},
      {.shape = {13, 29, 2101}, .alpha = -2, .bias = true, .padding = 1},  // K in three pieces
      {.shape = {7, 5, 0}, .beta = 1, .bias = true},
      {.shape = {7, 5, 0}},
      {.shape = {0, 5, 3}},
      {.shape = {5, 0, 3}},
  };
  for (const GemmCase& c : cases) check_all_orientations<A, B, C>(c);
}

TEST(Gemm, FloatMatchesTheNaiveProduct) {
  check_type<float, float, float>();
}
TEST(Gemm, DoubleMatchesTheNaiveProduct) {
  check_type<double, double, double>();
}
TEST(Gemm, Bf16OperandsMatchTheNaiveProduct) {
  check_type<Bf16, Bf16, float>();
  check_type<Bf16, float, float>();
  check_type<float, Bf16, float>();
}
TEST(Gemm, Bf16ResultsAreRoundedOnce) {
  check_type<Bf16, Bf16, Bf16>();
  check_type<float, float, Bf16>();
  check_type<float, Bf16, Bf16>();
  check_type<Bf16, float, Bf16>();
}

TEST(Gemm, ScalesWhatCHolds) {
  check_all_orientations<float, float, float>({.shape = {19, 83, 37}, .beta = -0.25, .bias = true});
  check_all_orientations<double, double, double>({.shape = {19, 83, 37}, .beta = 3});
}

TEST(Gemm, BlocksOfRowsAndColumnsMeet) {
  check_all_orientations<float, float, float>({.shape = {4103, 9, 3}});
  check_all_orientations<float, float, float>({.shape = {5, 4211, 3}, .bias = true});
  check_all_orientations<float, float, float>({.shape = {9, 1555, 1026}, .bias = true});
  check_all_orientations<float, float, float>({.shape = {3101, 3, 1026}, .beta = 1});
}

// Enough of them that tiles are of 16 panels instead of 8.
TEST(Gemm, WideTilesMeet) {
  check_all_orientations<float, float, float>({.shape = {1035, 1541, 7}, .bias = true});
  check_all_orientations<Bf16, Bf16, Bf16>({.shape = {1035, 1541, 7}, .beta = 1});
}

// Blocks of more than 2 MiB are packed past the caches, in whole aligned vectors if K allows.
TEST(Gemm, LargeBlocksAreStoredPastTheCaches) {
  check_all_orientations<float, float, float>({.shape = {1203, 5, 514}});
  check_all_orientations<float, float, float>({.shape = {1203, 5, 513}});
  check_all_orientations<float, float, float>({.shape = {5, 1301, 513}, .bias = true});
  check_all_orientations<Bf16, Bf16, float>({.shape = {1203, 5, 514}});
  check_all_orientations<double, double, double>({.shape = {5, 701, 513}});
}

template <class A, class B, class C>
void check_bits(const GemmCase& c) {
  const Problem<A, B, C> problem(c);
  const std::vector<C> one = problem.run(1);
  for (const int num_threads : {2, 3, 5}) {
    const std::vector<C> many = problem.run(num_threads);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(C)), 0) << num_threads << " threads";
  }
}

TEST(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  check_bits<float, float, float>({.shape = {301, 517, 1059}, .transpose_b = true, .bias = true});
  check_bits<float, float, float>({.shape = {301, 517, 1059}, .transpose_a = true, .beta = 1});
  check_bits<Bf16, Bf16, Bf16>({.shape = {301, 517, 1059}, .transpose_b = true, .beta = 1});
  check_bits<double, double, double>({.shape = {301, 217, 103}});
  // Several blocks of N and K, and of M and K.
  check_bits<float, float, float>({.shape = {40, 1701, 1059}, .transpose_b = true, .bias = true});
  check_bits<float, float, float>({.shape = {3101, 40, 1059}, .transpose_a = true, .beta = 1});
  check_bits<Bf16, Bf16, Bf16>({.shape = {40, 1701, 1059}, .transpose_b = true, .beta = 1});
  // Wide tiles.
  check_bits<float, float, float>({.shape = {1035, 1541, 67}, .transpose_b = true, .bias = true});
}

TEST(Gemm, BitsOfARowDoNotDependOnTheRowsAroundIt) {
  const GemmCase all{.shape = {45, 131, 1100}, .transpose_b = true};
  GemmCase one = all;
  one.shape.m = 1;
  const auto many_rows = Problem<float, float, float>(all).run(1);
  const auto one_row = Problem<float, float, float>(one).run(1);
  EXPECT_EQ(std::memcmp(many_rows.data(), one_row.data(), one_row.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace tessera::cpu
