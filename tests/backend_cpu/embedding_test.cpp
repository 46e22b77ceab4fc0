#include "tessera/ops/embedding.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kVocabulary = 11;
const Shape kIdsShape{3, 31};

TEST(CpuEmbedding, TakesRows) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor table = random_tensor(dtype, {kVocabulary, n}, 1);
      const HostTensor ids = random_ids(kIdsShape, 2, 0, kVocabulary - 1);
      const std::vector<double> rows = table.values();
      std::vector<double> wanted;
      for (double id : ids.values()) {
        for (std::int64_t c = 0; c < n; ++c) wanted.push_back(rows[static_cast<std::int64_t>(id) * n + c]);
      }
      EXPECT_EQ(run_kernel(cpu::embedding, Op::embedding, EmbeddingAttrs{}, {table, ids})[0], wanted);
    }
  }
}

TEST(CpuEmbedding, GradientAddsRowsOfTheSameId) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor sums = random_tensor(accumulate_dtype(dtype), {kVocabulary, n}, 1);
      const HostTensor ids = random_ids(kIdsShape, 2, 0, kVocabulary - 1);
      const HostTensor dy = random_tensor(dtype, {3, 31, n}, 3);
      std::vector<double> wanted = sums.values();
      const std::vector<double> g = dy.values(), id = ids.values();
      for (std::size_t r = 0; r < id.size(); ++r) {
        for (std::int64_t c = 0; c < n; ++c) wanted[static_cast<std::int64_t>(id[r]) * n + c] += g[r * n + c];
      }
      expect_close(run_kernel(cpu::embedding_grad, Op::embedding_grad, EmbeddingAttrs{}, {sums, ids, dy})[0],
                   wanted, accumulate_dtype(dtype), 10);
    }
  }
}

TEST(CpuEmbedding, PaddingIsLookedUpButHasNoGradient) {
  const EmbeddingAttrs attrs{.padding_id = 4};
  const HostTensor table = random_tensor(DType::f64, {kVocabulary, 8}, 1);
  const HostTensor ids = random_ids(kIdsShape, 2, 0, kVocabulary - 1),
                   dy = random_tensor(DType::f64, {3, 31, 8}, 3);
  EXPECT_EQ(run_kernel(cpu::embedding, Op::embedding, attrs, {table, ids})[0],
            run_kernel(cpu::embedding, Op::embedding, EmbeddingAttrs{}, {table, ids})[0]);
  std::vector<double> wanted =
      run_kernel(cpu::embedding_grad, Op::embedding_grad, EmbeddingAttrs{}, {table, ids, dy})[0];
  const std::vector<double> before = table.values();
  ASSERT_NE(wanted[4 * 8], before[4 * 8]) << "some id is the padding";
  std::copy_n(before.begin() + 4 * 8, 8, wanted.begin() + 4 * 8);
  EXPECT_EQ(run_kernel(cpu::embedding_grad, Op::embedding_grad, attrs, {table, ids, dy})[0], wanted);
}

TEST(CpuEmbeddingDeathTest, AnIdOutsideOfTheTableAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const HostTensor table = random_tensor(DType::f32, {kVocabulary, 8}, 1);
  const HostTensor dy = random_tensor(DType::f32, {1, 8}, 2);
  for (double id : {-1.0, static_cast<double>(kVocabulary)}) {
    const HostTensor ids({DType::i32, {1}}, {id});
    EXPECT_DEATH(run_kernel(cpu::embedding, Op::embedding, EmbeddingAttrs{}, {table, ids}), "id < ");
    EXPECT_DEATH(run_kernel(cpu::embedding_grad, Op::embedding_grad, EmbeddingAttrs{}, {table, ids, dy}),
                 "id < ");
  }
}

}  // namespace
}  // namespace tessera::cpu
