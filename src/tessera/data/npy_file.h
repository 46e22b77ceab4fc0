// NumPy's .npy files: written piece by piece, read by mapping.
//
// Used by the GPT index maps, whose cache is the original's, file for file. Version 1.0, C order,
// little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"

namespace tessera {

// "<i4", "<u4", "<i8": NumPy's name of an element.
template <class T>
constexpr std::string_view npy_dtype() {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? "<i4" : "<u4";
  return std::is_signed_v<T> ? "<i8" : "<u8";
}

// "(114,)", "(169, 2)": a shape as NumPy writes it.
std::string npy_shape_text(const std::vector<std::int64_t>& shape);

// The file appears whole, with commit(), or not at all. What is written must be what the shape says.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, std::string_view dtype,
            const std::vector<std::int64_t>& shape);

  template <class T>
  void write(std::span<const T> values) {
    TS_ASSERT(dtype_ == npy_dtype<T>());
    num_left_ -= std::ssize(values);
    file_.write(values.data(), values.size_bytes());
  }
  void flush();
  void commit();

 private:
  AtomicFile file_;
  std::string dtype_;
  std::int64_t num_left_ = 1;
};

class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path);  // throws Error naming the file

  const std::filesystem::path& path() const { return file_.path(); }
  const std::string& dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }

  // All elements; T must be the file's dtype.
  template <class T>
  std::span<const T> values() const {
    TS_ASSERT(dtype_ == npy_dtype<T>());
    return {reinterpret_cast<const T*>(file_.bytes().data() + data_offset_),
            (file_.bytes().size() - data_offset_) / sizeof(T)};
  }

 private:
  MappedFile file_;
  std::string dtype_;
  std::vector<std::int64_t> shape_;
  std::size_t data_offset_ = 0;
};

}  // namespace tessera
