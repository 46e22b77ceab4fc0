// Reading and writing the elements of a tensor: arithmetic happens in Accumulate<T>, and a stored value is
// rounded once.
#pragma once

#include "tessera/backend/cpu/kernel.h"

namespace tessera::cpu {

template <class T>
Accumulate<T> widen(T stored) {
  return static_cast<Accumulate<T>>(stored);
}

// For Bf16 the bits are assigned: g++ vectorises no loop that copies a struct.
template <class T>
void put(T& stored, Accumulate<T> value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    stored.bits = Bf16(value).bits;
  } else {
    stored = value;
  }
}

}  // namespace tessera::cpu
