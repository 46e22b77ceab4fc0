// The instructions of backend/cuda/instructions.cuh, emulated.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::cuda {

inline float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? 0.0f : x;
}
inline float exp2_approx(float x) {
  return flushed(std::exp2(flushed(x)));
}
inline float sqrt_approx(float x) {
  return flushed(std::sqrt(flushed(x)));
}

inline unsigned load_acquire(const unsigned* at) {
  emulated::pause();
  return std::atomic_ref(*const_cast<unsigned*>(at)).load(std::memory_order_acquire);
}
inline void store_release(unsigned* at, unsigned value) {
  std::atomic_ref(*at).store(value, std::memory_order_release);
}

inline void store_words(void* to, uint2 words) {
  *static_cast<uint2*>(to) = words;
}

template <int kNumThreads>
void wait_at_barrier(int barrier) {
  emulated::wait_at_barrier(barrier, kNumThreads);
}
template <int kNumThreads>
void arrive_at_barrier(int barrier) {
  emulated::arrive_at_barrier(barrier, kNumThreads);
}

// Four warps at once; how many they have is no matter here.
template <int kNum>
void give_up_registers() {
  static_assert(kNum % 8 == 0 && kNum >= 24 && kNum <= 256);
  emulated::wait_for_warp();
}
template <int kNum>
void take_registers() {
  give_up_registers<kNum>();
}

using Fragment = std::uint32_t[4];

inline float bf16_of(std::uint32_t pair, int which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000);
}

// Lane 8 i + r shows where row r of matrix i is.
inline void load_matrices_as(const void* row, bool transposed, Fragment& to) {
  const emulated::Shown& rows = emulated::show_to_warp(&row, sizeof row);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto elem = [&](int i, int j) {
      const std::uint16_t* of_row;
      std::memcpy(&of_row, rows.of_lane[8 * matrix + i], sizeof of_row);
      return std::uint32_t{of_row[j]};
    };
    const int i = lane / 4, j = lane % 4 * 2;
    to[matrix] = transposed ? elem(j, i) | elem(j + 1, i) << 16 : elem(i, j) | elem(i, j + 1) << 16;
  }
}
inline void load_matrices(const void* row, Fragment& to) {
  load_matrices_as(row, false, to);
}
inline void load_matrices_transposed(const void* row, Fragment& to) {
  load_matrices_as(row, true, to);
}

// This thread's rows g and g + 8 of A[16, 16], of which lanes 4 g to 4 g + 3 have shown their Fragments.
inline void rows_of_a(const emulated::Shown& shown, float (&rows)[2][16]) {
  const int first_lane = static_cast<int>(threadIdx.x) % 32 / 4 * 4;
  for (int t = 0; t < 4; ++t) {
    Fragment of_lane;
    std::memcpy(of_lane, shown.of_lane[first_lane + t], sizeof of_lane);
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 2; ++i) rows[part % 2][part / 2 * 8 + 2 * t + i] = bf16_of(of_lane[part], i);
    }
  }
}

// Lanes 4 j to 4 j + 3 have column j of B.
inline void multiply(const Fragment& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
  float rows[2][16];
  rows_of_a(emulated::show_to_warp(a, sizeof a), rows);
  const std::uint32_t b[2] = {b0, b1};
  const emulated::Shown& shown = emulated::show_to_warp(b, sizeof b);
  for (int column = 0; column < 2; ++column) {
    for (int t = 0; t < 4; ++t) {
      std::uint32_t of_column[2];
      std::memcpy(of_column, shown.of_lane[4 * (2 * (static_cast<int>(threadIdx.x) % 4) + column) + t],
                  sizeof of_column);
      for (int i = 0; i < 4; ++i) {
        const float factor = bf16_of(of_column[i / 2], i % 2);
        const int k = i / 2 * 8 + 2 * t + i % 2;
        c[column] += rows[0][k] * factor;
        c[2 + column] += rows[1][k] * factor;
      }
    }
  }
}

}  // namespace tessera::cuda
