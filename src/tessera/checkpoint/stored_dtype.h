// StoredDType: the element types a safetensors file may hold, more than the DTypes we compute in.
//
// A foreign file may carry types we never read (boolean masks beside the weights): they must have a
// name and a size for the file to be checked, but only the types of can_convert reach a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/base/tensor_view.h"

namespace tessera {

// In the order of Hugging Face's own enumeration: its writer puts the last ones first in a file, so
// that elements never grow from tensor to tensor and every tensor is aligned without padding.
enum class StoredDType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

std::int64_t stored_dtype_bytes(StoredDType dtype);
std::string_view stored_dtype_name(StoredDType dtype);  // as in the file: "BF16"
std::optional<StoredDType> find_stored_dtype(std::string_view name);
StoredDType stored_dtype_of(DType dtype);

// F32, F64, F16, BF16 become f32, f64 or bf16; I32, I64 become i32. Integers never become floats or
// the reverse: such a request is a mixed-up tensor, not a change of precision.
bool can_convert(StoredDType from, DType to);

// Fills `destination` from as many stored elements, which may lie at any address. Narrowing rounds to
// nearest (f64 to bf16 by way of f32). An integer that does not fit stops the copy and is returned.
std::optional<std::int64_t> convert_elements(std::span<const std::byte> source, StoredDType from,
                                             TensorView destination);

}  // namespace tessera
