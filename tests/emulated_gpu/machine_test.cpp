// The emulated GPU's own test: it computes what CUDA promises, and shows what CUDA does not.
#include <cstring>
#include <set>
#include <vector>

#include "emulated_gpu/kernel_test.h"
#include "tessera/backend/cuda/async_copy.cuh"
#include "tessera/backend/cuda/instructions.cuh"

namespace emulated {
namespace {

class MachineTest : public KernelTest {};

TEST_F(MachineTest, BlocksAddUpThroughSharedMemory) {
  auto* const sums = make<int>(40);
  run(
      40, 96, 0,
      [](int* to) {
        __shared__ int values[96];
        values[threadIdx.x] = static_cast<int>(threadIdx.x + blockIdx.x);
        __syncthreads();
        if (threadIdx.x != 0) return;
        int sum = 0;
        for (const int value : values) sum += value;
        to[blockIdx.x] = sum;
      },
      sums);
  finish();
  for (int block = 0; block < 40; ++block) EXPECT_EQ(sums[block], 96 * 95 / 2 + 96 * block);
}

TEST_F(MachineTest, LanesShuffle) {
  auto* const to = make<int>(64);
  run(
      1, 64, 0,
      [](int* at) {
        at[threadIdx.x] = __shfl_xor_sync(0xffffffff, static_cast<int>(threadIdx.x), 5) +
                          1000 * __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x), 3);
      },
      to);
  finish();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(to[i], (i ^ 5) + 1000 * (i / 32 * 32 + 3));
}

#ifndef EMULATED_GPU_WATCHES  // it would end the program, as access_watch_test.cpp shows
// Half of the blocks run their threads from the last to the first.
TEST_F(MachineTest, AForgottenBarrierShows) {
  auto* const to = make<int>(20);
  run(
      20, 64, 64 * sizeof(int),
      [](int* at) {
        auto* const values = reinterpret_cast<int*>(shared_memory());
        values[threadIdx.x] = 1;
        if (threadIdx.x == 0) at[blockIdx.x] = values[63];
      },
      to);
  finish();
  EXPECT_EQ(std::set<int>(to, to + 20), (std::set<int>{-1, 1}));
}
#endif

#ifndef EMULATED_GPU_WATCHES  // it would end the program, as access_watch_test.cpp shows
TEST_F(MachineTest, ACopyIsThereWhenItIsWaitedForAndNotBefore) {
  auto* const from = make<float>(4);
  auto* const to = make<float>(2);
  for (int i = 0; i < 4; ++i) from[i] = 3;
  run(
      1, 1, 16,
      [](const float* source, float* at) {
        auto* const tile = reinterpret_cast<float*>(shared_memory());
        tessera::cuda::copy_async<16>(tile, source);
        tessera::cuda::end_copy_group();
        at[0] = tile[1];
        tessera::cuda::wait_for_copies<0>();
        at[1] = tile[1];
      },
      from, to);
  finish();
  EXPECT_TRUE(std::isnan(to[0]));
  EXPECT_EQ(to[1], 3);
}
#endif

TEST_F(MachineTest, ThreadsThatWaitForEverEndTheProgram) {
  EXPECT_DEATH(
      {
        run(
            1, 64, 0, [](int) { wait_at_barrier(1, 65); }, 0);
        cudaStreamSynchronize(stream);
      },
      "wait for ever");
}

// C = A B of 16 x 16 and 16 x 8, element by element.
TEST_F(MachineTest, AWarpMultiplies) {
  auto* const c = make<float>(16 * 8);
  const auto a_elem = [](int i, int k) { return static_cast<float>((3 * i + 5 * k) % 7 - 3); };
  const auto b_elem = [](int k, int j) { return static_cast<float>((2 * k + j) % 5 - 2); };
  run(
      1, 32, 0,
      [a_elem, b_elem](float* to) {
        const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
        const auto pair = [](float low, float high) {
          return std::bit_cast<std::uint32_t>(low) >> 16 | (std::bit_cast<std::uint32_t>(high) & 0xffff0000);
        };
        tessera::cuda::Fragment a;
        for (int part = 0; part < 4; ++part) {
          const int i = g + part % 2 * 8, k = 2 * t + part / 2 * 8;
          a[part] = pair(a_elem(i, k), a_elem(i, k + 1));
        }
        float sums[4] = {};
        tessera::cuda::multiply(a, pair(b_elem(2 * t, g), b_elem(2 * t + 1, g)),
                                pair(b_elem(2 * t + 8, g), b_elem(2 * t + 9, g)), sums);
        for (int i = 0; i < 4; ++i) to[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
      },
      c);
  finish();
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a_elem(i, k) * b_elem(k, j);
      EXPECT_EQ(c[i * 8 + j], sum) << i << ", " << j;
    }
  }
}

TEST_F(MachineTest, StreamsKeepTheOrderThatEventsGiveThemAndNoOther) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  std::set<std::vector<int>> with_event, without;
  for (int round = 0; round < 40; ++round) {
    for (const bool waits : {true, false}) {
      std::vector<int> order;
      enqueue(stream, [&] { order.push_back(1); });
      cudaEventRecord(event, stream);
      if (waits) cudaStreamWaitEvent(other, event, 0);
      enqueue(other, [&] { order.push_back(2); });
      cudaStreamSynchronize(stream);
      cudaStreamSynchronize(other);
      (waits ? with_event : without).insert(order);
    }
  }
  EXPECT_EQ(with_event, (std::set<std::vector<int>>{{1, 2}}));
  EXPECT_EQ(without, (std::set<std::vector<int>>{{1, 2}, {2, 1}}));
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
}

TEST_F(MachineTest, NothingHappensBeforeItIsWaitedFor) {
  auto* const data = make<int>(1);
  run(
      1, 1, 0, [](int* at) { *at = 7; }, data);
  EXPECT_EQ(*data, -1);
  finish();
  EXPECT_EQ(*data, 7);
}

TEST_F(MachineTest, AGraphRunsAgainWhatWasCaptured) {
  auto* const data = make<int>(1);
  *data = 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  void* more = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  run(
      1, 1, 0, [](int* at) { *at += 1; }, data);
  EXPECT_NE(cudaStreamSynchronize(stream), cudaSuccess) << "while it is captured";
  EXPECT_NE(cudaMalloc(&more, 16), cudaSuccess) << "while it is captured";
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  finish();
  EXPECT_EQ(*data, 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
  finish();
  EXPECT_EQ(*data, 3);
  cudaGraphExecDestroy(runnable);
}

TEST_F(MachineTest, WhatCudaRefusesIsRefused) {
  auto* const data = make<char>(16);
  char host[32];
  EXPECT_NE(cudaMemcpyAsync(data, host, 17, cudaMemcpyDefault, stream), cudaSuccess) << "past the end";
  EXPECT_NE(cudaMemsetAsync(data + 8, 0, 9, stream), cudaSuccess) << "past the end";
  void* too_much = nullptr;
  EXPECT_EQ(cudaMalloc(&too_much, kMemoryBytes + 1), cudaErrorMemoryAllocation);
  cudaGetLastError();
  run(
      1, 1025, 0, [](int) {}, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  Launch(dim3(1, 65536), 1, 0, stream).of([](int) {}, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  run(
      1, 1, kMostSharedBytes + 1, [](int) {}, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

}  // namespace
}  // namespace emulated
