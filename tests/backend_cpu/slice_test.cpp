#include "tessera/ops/slice.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

TEST(CpuSlice, SliceTakesColumns) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      for (std::int64_t begin : {std::int64_t{0}, n / 3}) {
        const std::int64_t size = n - begin - n / 4;
        const HostTensor x = random_tensor(dtype, {2, 41, n}, 1);
        const std::vector<double> values = x.values();
        std::vector<double> wanted;
        for (std::int64_t r = 0; r < 2 * 41; ++r) {
          for (std::int64_t c = begin; c < begin + size; ++c) wanted.push_back(values[r * n + c]);
        }
        EXPECT_EQ(run_kernel(cpu::slice, Op::slice, SliceAttrs{begin, size}, {x})[0], wanted);
      }
    }
  }
}

TEST(CpuSlice, PiecesOfADimThatIsNotTheLast) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {3, 41, n}, 1), piece = random_tensor(dtype, {3, 11, n}, 2);
      const std::vector<double> values = x.values(), piece_values = piece.values();
      std::vector<double> wanted, padded(static_cast<std::size_t>(3 * 41 * n), 0.0);
      for (std::int64_t b = 0; b < 3; ++b) {
        for (std::int64_t i = 0; i < 11 * n; ++i) {
          wanted.push_back(values[(b * 41 + 7) * n + i]);
          padded[(b * 41 + 7) * n + i] = piece_values[b * 11 * n + i];
        }
      }
      EXPECT_EQ(run_kernel(cpu::slice, Op::slice, SliceAttrs{7, 11, -2}, {x})[0], wanted);
      EXPECT_EQ(run_kernel(cpu::pad, Op::pad, PadAttrs{7, 41, -2}, {piece})[0], padded);
    }
  }
}

TEST(CpuSlice, PadPutsZerosAround) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      for (std::int64_t begin : {0, 5}) {
        const std::int64_t total = n + 2 * begin;
        const HostTensor x = random_tensor(dtype, {2, 41, n}, 1);
        const std::vector<double> values = x.values();
        std::vector<double> wanted(static_cast<std::size_t>(82 * total), 0.0);
        for (std::int64_t i = 0; i < 82 * n; ++i) wanted[i / n * total + begin + i % n] = values[i];
        EXPECT_EQ(run_kernel(cpu::pad, Op::pad, PadAttrs{begin, total}, {x})[0], wanted);
      }
    }
  }
}

TEST(CpuSlice, ConcatPutsRowsBesideEachOther) {
  for (DType dtype : kFloatingTypes) {
    std::vector<HostTensor> pieces;
    std::vector<std::vector<double>> values;
    for (std::int64_t n : kOddSizes) {
      pieces.push_back(random_tensor(dtype, {2, 23, n}, static_cast<std::uint64_t>(n)));
      values.push_back(pieces.back().values());
    }
    std::vector<double> wanted;
    for (std::int64_t r = 0; r < 2 * 23; ++r) {
      for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        const std::int64_t n = kOddSizes[piece];
        for (std::int64_t c = 0; c < n; ++c) wanted.push_back(values[piece][r * n + c]);
      }
    }
    EXPECT_EQ(run_kernel(cpu::concat, Op::concat, {}, pieces)[0], wanted);
  }
}

}  // namespace
}  // namespace tessera::cpu
