// TensorView: a typed, shaped, contiguous piece of memory owned by somebody else (an arena, a mapped file).
#pragma once

#include <cstddef>
#include <span>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t num_elems() const { return shape.num_elems(); }
  std::int64_t num_bytes() const { return num_elems() * dtype_bytes(dtype); }

  // The elements as T; asserts that T is what is stored.
  template <class T>
  std::span<T> as() const {
    TS_ASSERT(dtype == dtype_of<T>);
    return {static_cast<T*>(data), static_cast<std::size_t>(num_elems())};
  }
};

}  // namespace tessera
