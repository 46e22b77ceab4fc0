// NumpyRandom: the shuffles of numpy.random.RandomState, number for number.
//
// Used to build GPT index maps, whose order NeMo takes from RandomState(seed).shuffle: an MT19937, and for
// each place from the last down a partner at or before it, drawn by masking and rejecting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace tessera {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}  // both seed with Knuth's multiplier 1812433253

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[at_most(i)]);
  }

  // Uniform in [0, max].
  std::uint64_t at_most(std::uint64_t max);

 private:
  std::mt19937 engine_;
};

}  // namespace tessera
