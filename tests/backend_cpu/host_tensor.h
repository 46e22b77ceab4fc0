// HostTensor: a tensor with its own memory, made from and read as doubles, for the tests of the kernels.
#pragma once

#include <vector>

#include "tessera/base/float_halves.h"
#include "tessera/base/philox.h"
#include "tessera/base/tensor_view.h"
#include "tessera/graph/graph.h"

namespace tessera::cpu {

inline const std::vector<DType> kFloatingTypes = {DType::f32, DType::bf16, DType::f64};
inline const std::vector<std::int64_t> kOddSizes = {1, 3, 17, 1000};

// Of both norms: enough rows for several parts of the gradient's partial sums at the larger widths.
inline constexpr std::int64_t kNormRows = 130;
inline constexpr double kNormEps = 1e-5;

struct HostTensor {
  ValueType type;
  std::vector<std::byte> bytes;

  explicit HostTensor(const ValueType& t, std::byte fill = std::byte{0})
      : type(t), bytes(static_cast<std::size_t>(t.num_bytes()), fill) {}
  HostTensor(const ValueType& t, const std::vector<double>& values) : HostTensor(t) {
    TS_ASSERT(static_cast<std::int64_t>(values.size()) == t.shape.num_elems());
    for (std::size_t i = 0; i < values.size(); ++i) {
      switch (type.dtype) {
        case DType::f32:
          view().as<float>()[i] = static_cast<float>(values[i]);
          break;
        case DType::bf16:
          view().as<Bf16>()[i] = Bf16(static_cast<float>(values[i]));
          break;
        case DType::f64:
          view().as<double>()[i] = values[i];
          break;
        case DType::i32:
          view().as<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
          break;
        case DType::i16:
          view().as<std::int16_t>()[i] = static_cast<std::int16_t>(values[i]);
          break;
      }
    }
  }

  TensorView view() { return {bytes.data(), type.dtype, type.shape}; }

  std::vector<double> values() const {
    HostTensor copy = *this;
    std::vector<double> out(static_cast<std::size_t>(type.shape.num_elems()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      switch (type.dtype) {
        case DType::f32:
          out[i] = copy.view().as<float>()[i];
          break;
        case DType::bf16:
          out[i] = static_cast<float>(copy.view().as<Bf16>()[i]);
          break;
        case DType::f64:
          out[i] = copy.view().as<double>()[i];
          break;
        case DType::i32:
          out[i] = copy.view().as<std::int32_t>()[i];
          break;
        case DType::i16:
          out[i] = copy.view().as<std::int16_t>()[i];
          break;
      }
    }
    return out;
  }
};

// Normal numbers, a function of `stream`, already rounded to `dtype`.
inline HostTensor random_tensor(DType dtype, const Shape& shape, std::uint64_t stream,
                                double deviation = 1.0) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
    values.push_back(deviation * philox_normal(17, stream, static_cast<std::uint64_t>(i)));
  }
  return HostTensor({dtype, shape}, values);
}

// The low halves of fp32 weights.
inline HostTensor low_halves(const std::vector<double>& weights) {
  std::vector<double> low;
  for (double w : weights) low.push_back(low_half(std::bit_cast<std::uint32_t>(static_cast<float>(w))));
  return HostTensor({DType::i16, {static_cast<std::int64_t>(low.size())}}, low);
}

// The weights again, of their roundings to bf16 and their low halves.
inline std::vector<double> joined(const std::vector<double>& rounded, const std::vector<double>& low) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const std::uint16_t high = Bf16(static_cast<float>(rounded[i])).bits;
    weights.push_back(std::bit_cast<float>(join_halves(high, static_cast<std::int16_t>(low[i]))));
  }
  return weights;
}

// Integers in [least, most].
inline HostTensor random_ids(const Shape& shape, std::uint64_t stream, std::int64_t least,
                             std::int64_t most) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
    const std::uint32_t bits = philox(17, static_cast<std::uint64_t>(i), stream)[0];
    values.push_back(static_cast<double>(least + bits % (most - least + 1)));
  }
  return HostTensor({DType::i32, shape}, values);
}

}  // namespace tessera::cpu
