// Shape: the dims of a tensor, outermost first, at most kMaxDims of them; a value without allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tessera/base/error.h"

namespace tessera {

class Shape {
 public:
  static constexpr int kMaxDims = 5;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> dims) {
    for (std::int64_t d : dims) push_back(d);
  }

  void push_back(std::int64_t dim) {
    TS_ASSERT(rank_ < kMaxDims);
    dims_[rank_++] = dim;
  }

  int rank() const { return rank_; }
  // Negative dims count from the end: shape[-1] is the innermost.
  std::int64_t operator[](int dim) const {
    const int at = dim < 0 ? dim + rank_ : dim;
    TS_ASSERT(at >= 0 && at < rank_);
    return dims_[at];
  }
  void set(int dim, std::int64_t size) {
    const int at = dim < 0 ? dim + rank_ : dim;
    TS_ASSERT(at >= 0 && at < rank_);
    dims_[at] = size;
  }

  std::int64_t num_elems() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // All dims but the innermost, multiplied: the rows a row-wise kernel sees.
  std::int64_t num_rows() const { return rank_ == 0 ? 1 : num_elems_before(rank_ - 1); }

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if (dims_[i] != other.dims_[i]) return false;
    }
    return true;
  }

  std::string text() const {  // "[2,16,768]"
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) {
      if (i > 0) s += ',';
      s += std::to_string(dims_[i]);
    }
    s += ']';
    return s;
  }

 private:
  std::int64_t num_elems_before(int dim) const {
    std::int64_t n = 1;
    for (int i = 0; i < dim; ++i) n *= dims_[i];
    return n;
  }

  std::array<std::int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};

}  // namespace tessera
