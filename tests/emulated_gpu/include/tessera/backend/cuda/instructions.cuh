// The instructions of backend/cuda/instructions.cuh, emulated.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "emulated_gpu/matrix_products.h"

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
  return emulated::load_acquire(at);
}
inline void store_release(unsigned* at, unsigned value) {
  emulated::store_release(at, value);
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
  emulated::meet_warp();
}
template <int kNum>
void take_registers() {
  give_up_registers<kNum>();
}

using emulated::Fragment;

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

using emulated::multiply;

}  // namespace tessera::cuda
