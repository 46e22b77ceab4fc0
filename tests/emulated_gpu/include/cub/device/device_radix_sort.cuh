// The one algorithm of CUB that backend/cuda uses, emulated.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  // By the bits from `begin_bit` to `end_bit`; pairs of equal keys stay in their order.
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& scratch_bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int count, int begin_bit,
                               int end_bit, cudaStream_t stream) {
    if (scratch == nullptr) {
      scratch_bytes = 1;
      return cudaSuccess;
    }
    return emulated::enqueue(stream, [=] {
      std::vector<int> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      const auto digits = [&](int i) {
        return static_cast<std::uint64_t>(keys[i]) >> begin_bit &
               ((std::uint64_t{1} << (end_bit - begin_bit)) - 1);
      };
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return digits(a) < digits(b); });
      for (std::size_t i = 0; i < order.size(); ++i)
        sorted_keys[i] = keys[order[i]], sorted_values[i] = values[order[i]];
    });
  }
};

}  // namespace cub
