// Carver: cuts typed, aligned pieces from a workspace that the caller provides.
//
// The same code that carves also counts: a default-made Carver hands out null pointers and adds up the
// bytes, so a kernel's size function cannot disagree with the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/backend/cpu/simd.h"

namespace tessera::cpu {

class Carver {
 public:
  static constexpr std::int64_t kAlignment = 64;  // a cache line, and the widest vector

  Carver() = default;
  explicit Carver(std::span<std::byte> workspace) {
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(workspace.data()));
    base_ = workspace.data() + (round_up(address, kAlignment) - address);
  }

  template <class T>
  T* take(std::int64_t num_elems) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += round_up(num_elems * static_cast<std::int64_t>(sizeof(T)), kAlignment);
    return piece;
  }

  // Enough for the pieces taken so far, wherever the workspace begins.
  std::int64_t num_bytes() const { return used_ + kAlignment; }

 private:
  std::byte* base_ = nullptr;
  std::int64_t used_ = 0;
};

// Of a struct that takes its parts in its constructor.
template <class Scratch, class Shape>
std::int64_t carved_bytes(const Shape& shape) {
  Carver counter;
  Scratch(counter, shape);
  return counter.num_bytes();
}

}  // namespace tessera::cpu
