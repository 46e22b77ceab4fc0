// Kernels that are wrong end the program where accesses are watched, and those that are right do not.
#ifdef EMULATED_GPU_WATCHES
#include <cstdint>
#include <string>

#include "emulated_gpu/kernel_test.h"
#include "tessera/backend/cuda/async_copy.cuh"
#include "tessera/backend/cuda/bulk_copy.cuh"
#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/warpgroup_mma.cuh"

namespace emulated {
namespace {

using tessera::cuda::SharedBarrier;

class AccessWatchTest : public KernelTest {
 protected:
  template <class... Args>
  void expect_end(const std::string& message, unsigned blocks, unsigned threads, std::size_t shared_bytes,
                  Args... args) {
    EXPECT_DEATH(
        {
          run(blocks, threads, shared_bytes, args...);
          cudaStreamSynchronize(stream);
        },
        message);
  }
};

template <class T>
T* dynamic_memory() {
  return reinterpret_cast<T*>(shared_memory());
}

TEST_F(AccessWatchTest, AReadThatNoBarrierPutsBehindTheWrite) {
  const auto kernel = [](int* to, bool right) {
    __shared__ int of_block[64];
    int* const values = dynamic_memory<int>();
    of_block[threadIdx.x] = values[threadIdx.x] = 1;
    if (right) __syncthreads();
    to[blockIdx.x * 64 + threadIdx.x] = values[63 - threadIdx.x] + of_block[threadIdx.x ^ 1];
  };
  auto* const to = make<int>(8 * 64);
  expect_end(
      "block \\(.*\\), thread \\(.*\\): (reads|writes) 4 bytes of (static )?shared memory at \\+.*, which "
      "thread .* has (read|written), .*\\(a race\\)",
      8, 64, 256, kernel, to, false);
  run(8, 64, 256, kernel, to, true);
  finish();
}

TEST_F(AccessWatchTest, StaticSharedMemoryToo) {
  expect_end(
      "4 bytes of static shared memory at .*a race", 1, 64, 0,
      [](int) {
        __shared__ int values[64];
        values[threadIdx.x] = 1;
        if (values[threadIdx.x ^ 32] == 7) __syncthreads();
      },
      0);
}

TEST_F(AccessWatchTest, AWriteToWhatOthersMayStillRead) {
  const auto kernel = [](bool right) {
    int* const values = dynamic_memory<int>();
    for (int i = 0; i < 3; ++i) {
      values[threadIdx.x] = i;
      __syncthreads();
      if (values[(threadIdx.x + 1) % 64] != i) values[threadIdx.x] = 7;
      if (right) __syncthreads();
    }
  };
  expect_end("writes 4 bytes of shared memory at .*, which thread .* has read", 1, 64, 256, kernel, false);
  run(1, 64, 256, kernel, true);
  finish();
}

TEST_F(AccessWatchTest, AWriteToWhatManyHaveRead) {
  expect_end(
      "writes 4 bytes of shared memory at .*, which thread .* has read", 1, 96, 256,
      [](int) {
        int* const values = dynamic_memory<int>();
        if (threadIdx.x == 0) values[0] = 1;
        __syncthreads();
        const int seen = values[0];
        wait_at_barrier(1 + static_cast<int>(threadIdx.x / 32), 32);  // a barrier of each warp
        if (threadIdx.x == 95) values[0] = 1 + seen;
      },
      0);
}

TEST_F(AccessWatchTest, AShuffleIsNoBarrierOfMemory) {
  const auto kernel = [](bool right) {
    int* const values = dynamic_memory<int>();
    values[threadIdx.x] = __shfl_xor_sync(0xffffffff, 3, 1);
    right ? __syncwarp() : void(__shfl_xor_sync(0xffffffff, 3, 1));
    if (values[threadIdx.x ^ 1] != 3) values[threadIdx.x] = 4;
  };
  expect_end("reads 4 bytes of shared memory", 1, 64, 256, kernel, false);
  run(1, 64, 256, kernel, true);
  finish();
}

TEST_F(AccessWatchTest, ABarrierOfOneWarpIsNoneOfAnother) {
  expect_end(
      "4 bytes of shared memory at .*a race", 1, 64, 256,
      [](int) {
        int* const values = dynamic_memory<int>();
        values[threadIdx.x] = 3;
        __syncwarp();
        if (values[threadIdx.x ^ 32] != 3) values[threadIdx.x] = 4;
      },
      0);
}

TEST_F(AccessWatchTest, ABarrierByItsNumber) {
  const auto kernel = [](bool right) {
    int* const values = dynamic_memory<int>();
    if (threadIdx.x < 64) {
      values[threadIdx.x] = 3;
      arrive_at_barrier(1, 128);
      if (!right) values[threadIdx.x] = 4;
    } else {
      wait_at_barrier(1, 128);
      if (values[127 - threadIdx.x] != 3) values[threadIdx.x] = 4;
    }
  };
  expect_end("4 bytes of shared memory", 1, 128, 512, kernel, false);
  run(1, 128, 512, kernel, true);
  finish();
}

TEST_F(AccessWatchTest, NeighboursOfTwoBytesAndOfOneAreApart) {
  run(
      2, 64, 192,
      [](std::uint16_t* to) {
        auto* const pairs = dynamic_memory<std::uint16_t>();
        auto* const bytes = reinterpret_cast<std::uint8_t*>(pairs + 64);
        pairs[threadIdx.x] = bytes[threadIdx.x] = static_cast<std::uint8_t>(threadIdx.x);
        __syncthreads();
        to[blockIdx.x + 2 * threadIdx.x] = pairs[63 - threadIdx.x] + bytes[threadIdx.x ^ 1];
      },
      make<std::uint16_t>(128));
  finish();
}

TEST_F(AccessWatchTest, BlocksThatWriteTheSame) {
  auto* const to = make<int>(64);
  expect_end(
      "writes 4 bytes of global memory at .*, which thread .* of block .* has written", 8, 64, 0,
      [](int* at) { at[threadIdx.x] = static_cast<int>(blockIdx.x); }, to);
  expect_end(
      "writes 4 bytes of global memory at .*, which thread .* of block .* has read", 8, 64, 0,
      [](int* at) {
        if (at[threadIdx.x] != 0 && blockIdx.x == 7) at[threadIdx.x] = 0;
      },
      to);
}

TEST_F(AccessWatchTest, KernelsOneAfterTheOther) {
  auto* const to = make<int>(64);
  for (int i = 0; i < 3; ++i)
    run(
        1, 64, 0, [](int* at) { at[63 - threadIdx.x] += at[63 - threadIdx.x]; }, to);
  run(
      1, 32, 0, [](int* at) { at[threadIdx.x] = at[63 - threadIdx.x]; }, to);
  finish();
}

// Each adds when it is its turn.
TEST_F(AccessWatchTest, BlocksThatTakeTurns) {
  const auto kernel = [](unsigned* turn, int* sum, bool right) {
    if (threadIdx.x != 0) return;
    while (tessera::cuda::load_acquire(turn) != blockIdx.x) {
    }
    if (!right) tessera::cuda::store_release(turn, blockIdx.x + 1);
    *sum += static_cast<int>(blockIdx.x);
    if (right) tessera::cuda::store_release(turn, blockIdx.x + 1);
  };
  auto* const turn = make<unsigned>(1);
  auto* const sum = make<int>(1);
  *turn = 0, *sum = 0;
  expect_end("4 bytes of global memory at .* of block", 9, 32, 0, kernel, turn, sum, false);
  run(9, 32, 0, kernel, turn, sum, true);
  finish();
  EXPECT_EQ(*sum, 36);
}

TEST_F(AccessWatchTest, WhatOthersChangeAtomicallyAndOneDoesNot) {
  expect_end(
      "4 bytes of global memory at .*a race", 6, 1, 0,
      [](int* at) { blockIdx.x % 2 == 0 ? void(atomicAdd(at, 1)) : void(*at = 1); }, make<int>(1));
}

TEST_F(AccessWatchTest, WhatIsNoMemory) {
  auto* const data = make<float>(33);
  const auto store_at = [](float* at, int i) { at[i] = 1; };
  for (const int at : {33, -1, 100'000'000})
    expect_end("goes beyond what was allocated, to 4 bytes of global memory", 1, 1, 0, store_at, data, at);
  void* freed = nullptr;
  cudaMalloc(&freed, 64);
  cudaFree(freed);
  expect_end("goes beyond what was allocated", 1, 1, 0, store_at, static_cast<float*>(freed), 0);
  expect_end(
      "goes beyond the 64 bytes of shared memory of its block, to \\+64", 1, 1, 64,
      [](int) { dynamic_memory<float>()[16] = 1; }, 0);
  expect_end(
      "goes beyond the 64 bytes of shared memory", 1, 1, 64,
      [](float* from) {
        tessera::cuda::copy_async<4>(dynamic_memory<float>() + 16, from);
        tessera::cuda::end_copy_group();
        tessera::cuda::wait_for_copies<0>();
      },
      data);
}

TEST_F(AccessWatchTest, ASmallCopyToWhatOthersStillRead) {
  const auto kernel = [](const float* from, bool right) {
    auto* const tile = dynamic_memory<float>();
    tile[threadIdx.x] = 1;
    __syncthreads();
    const float seen = tile[63 - threadIdx.x];
    if (right) __syncthreads();
    tessera::cuda::copy_async<4>(tile + threadIdx.x, from + threadIdx.x);
    tessera::cuda::end_copy_group();
    if (!right) __syncthreads();  // behind its beginning
    tessera::cuda::wait_for_copies<0>();
    if (right) __syncthreads();
    if (tile[threadIdx.x] == seen) tile[threadIdx.x] = 0;
  };
  auto* const from = make<float>(64);
  expect_end("writes 4 bytes of shared memory at .* has read", 1, 64, 256, kernel, from, false);
  run(1, 64, 256, kernel, from, true);
  finish();
}

// A thread brings tiles, a warp reads them. Right or forgotten: that it waits for the tile, that the warp
// comes together before it says so, that the other thread waits for that.
struct Pipeline {
  enum Mistake { none, no_wait_for_tile, no_meeting, no_wait_for_readers };
  static constexpr int kTiles = 6;  // at most
  struct Memory {
    alignas(128) float tile[2][32];
    SharedBarrier full[2], empty[2];
  };
  void operator()(const float* from, float* to, int tiles, Mistake mistake) const {
    auto& s = *dynamic_memory<Memory>();
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) s.full[i].init(1), s.empty[i].init(1);
    }
    __syncthreads();
    for (int i = 0; i < tiles; ++i) {
      const unsigned parity = static_cast<unsigned>(i / 2 % 2);
      if (threadIdx.x == 32) {
        SharedBarrier& free = mistake == no_wait_for_readers ? s.full[i % 2] : s.empty[i % 2];
        free.wait(parity ^ 1);
        s.full[i % 2].arrive_and_expect(sizeof s.tile[0]);
        tessera::cuda::copy_bytes(tessera::cuda::shared_address_of(s.tile[i % 2]), from + 32 * i,
                                  sizeof s.tile[0], s.full[i % 2]);
      } else if (threadIdx.x < 32) {
        if (mistake != no_wait_for_tile) s.full[i % 2].wait(parity);
        to[32 * i + threadIdx.x] = s.tile[i % 2][31 - threadIdx.x];
        if (mistake != no_meeting) __syncwarp();
        if (threadIdx.x == 0) s.empty[i % 2].arrive();
      }
    }
    // So that none is left.
    for (int i = tiles - 2; i < tiles && threadIdx.x == 32; ++i)
      s.full[i % 2].wait(static_cast<unsigned>(i / 2 % 2));
  }
};
TEST_F(AccessWatchTest, TilesThatTheCopyEngineBrings) {
  auto* const from = make<float>(32 * Pipeline::kTiles);
  auto* const to = make<float>(32 * Pipeline::kTiles);
  for (const auto mistake :
       {Pipeline::no_wait_for_tile, Pipeline::no_meeting, Pipeline::no_wait_for_readers}) {
    expect_end("bytes of shared memory at .*a race", 1, 33, sizeof(Pipeline::Memory), Pipeline{}, from, to,
               mistake == Pipeline::no_wait_for_tile ? 2 : Pipeline::kTiles, mistake);
  }
  run(1, 33, sizeof(Pipeline::Memory), Pipeline{}, from, to, Pipeline::kTiles, Pipeline::none);
  finish();
}

// Whether it has come or not: in every other block it has.
TEST_F(AccessWatchTest, ABarrierOfThreadsIsNoneOfCopies) {
  const auto kernel = [](const float* from, float* to, bool right) {
    struct Memory {
      alignas(128) float tile[32];
      SharedBarrier full;
    };
    auto& s = *dynamic_memory<Memory>();
    if (threadIdx.x == 0) s.full.init(1);
    __syncthreads();
    if (threadIdx.x == 0) {
      s.full.arrive_and_expect(sizeof s.tile);
      tessera::cuda::copy_bytes(tessera::cuda::shared_address_of(s.tile), from, sizeof s.tile, s.full);
    }
    __syncthreads();
    if (right) s.full.wait(0);
    to[32 * blockIdx.x + threadIdx.x] = s.tile[threadIdx.x];
    s.full.wait(0);
  };
  auto* const from = make<float>(32);
  auto* const to = make<float>(32 * 2);
  expect_end("bytes of shared memory at .*a race", 2, 32, 256, kernel, from, to, false);
  run(2, 32, 256, kernel, from, to, true);
  finish();
}

TEST_F(AccessWatchTest, ATileThatAProductMayStillRead) {
  const auto kernel = [](bool right) {
    auto* const tile = dynamic_memory<std::uint16_t>();  // 64 rows of 64
    for (int i = 0; i < 32; ++i) tile[threadIdx.x + 128 * i] = 0;
    __syncthreads();
    const std::uint64_t rows = tessera::cuda::tile_descriptor(tessera::cuda::shared_address_of(tile));
    float sums[4];
    tessera::cuda::begin_products();
    tessera::cuda::multiply_tiles<tessera::cuda::BRows::kAlongK>(rows, rows, false, sums);
    tessera::cuda::end_product_group();
    if (right) tessera::cuda::wait_for_products<0>();
    if (right) __syncthreads();
    if (threadIdx.x == 127) tile[0] = 1;
    if (!right) __syncthreads();  // behind its beginning
    if (!right) tessera::cuda::wait_for_products<0>();
  };
  expect_end("reads 16 bytes of shared memory at \\+0, which thread \\(127, 0, 0\\) has written", 1, 128,
             8192, kernel, false);
  run(1, 128, 8192, kernel, true);
  finish();
}

TEST_F(AccessWatchTest, WhatAStoreMayStillRead) {
  const auto kernel = [](float* to, bool right) {
    auto* const tile = dynamic_memory<float>();
    tile[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      tessera::cuda::add_floats(to, tessera::cuda::shared_address_of(tile), 128);
      tessera::cuda::end_store_group();
      if (right) tessera::cuda::wait_for_store_reads();
    }
    __syncthreads();
    tile[threadIdx.x] = 2;
    if (threadIdx.x == 0) tessera::cuda::wait_for_stores();
  };
  auto* const to = make<float>(32);
  expect_end("reads 128 bytes of shared memory", 1, 32, 128, kernel, to, false);
  run(1, 32, 128, kernel, to, true);
  finish();
}

}  // namespace
}  // namespace emulated
#endif
