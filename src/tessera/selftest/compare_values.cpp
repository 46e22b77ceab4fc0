#include "tessera/selftest/compare_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "tessera/base/bf16.h"
#include "tessera/base/thread_pool.h"
#include "tessera/base/usable_cores.h"

namespace tessera {
namespace {

// Calls f with a function that gives the elements of memory of this type.
template <class F>
auto with_elements(DType dtype, F f) {
  const auto as = [&]<class T>(T) {
    return f([](std::span<const std::byte> bytes, std::size_t i) {
      T stored;
      std::memcpy(&stored, bytes.data() + i * sizeof(T), sizeof(T));
      return static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, Bf16>, float, T>>(stored));
    });
  };
  switch (dtype) {
    case DType::f32:
      return as(float{});
    case DType::bf16:
      return as(Bf16{});
    case DType::f64:
      return as(double{});
    case DType::i16:
      return as(std::int16_t{});
    case DType::i32:
      break;
  }
  return as(std::int32_t{});
}

constexpr std::int64_t kPieceElems = 64 * 1024;
constexpr std::int64_t kMostPiecesAlone = 8;  // more are worth threads

// f(first, end) of each piece of the elements.
template <class F>
std::vector<double> of_pieces(std::int64_t count, F f) {
  std::vector<double> results(static_cast<std::size_t>((count + kPieceElems - 1) / kPieceElems));
  ThreadPool pool(std::ssize(results) > kMostPiecesAlone ? num_usable_cores() : 1);
  pool.for_each_task(std::ssize(results), [&](std::int64_t task, int) {
    const std::int64_t first = task * kPieceElems;
    results[static_cast<std::size_t>(task)] =
        f(static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(count, first + kPieceElems)));
  });
  return results;
}

}  // namespace

double compare_values(DType dtype, std::span<const std::byte> found, std::span<const std::byte> wanted) {
  const std::int64_t count = std::ssize(wanted) / dtype_bytes(dtype);
  return with_elements(dtype, [&](auto element) {
    const std::vector<double> squares = of_pieces(count, [&](std::size_t first, std::size_t end) {
      double sum = 0;
      for (std::size_t i = first; i < end; ++i) {
        const double value = element(wanted, i);
        if (std::isfinite(value)) sum += value * value;
      }
      return sum;
    });
    const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
    const double rms = std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(1, count)));
    const std::vector<double> errors = of_pieces(count, [&](std::size_t first, std::size_t end) {
      double worst = 0;
      for (std::size_t i = first; i < end; ++i) {
        const double a = element(found, i), b = element(wanted, i);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double error =
            std::abs(a - b) / std::max({std::abs(b), rms, std::numeric_limits<double>::min()});
        worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
      }
      return worst;
    });
    return errors.empty() ? 0.0 : *std::ranges::max_element(errors);
  });
}

}  // namespace tessera
