#include "tessera/data/npy_file.h"

#include <algorithm>
#include <charconv>

namespace tessera {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr std::size_t kAlignment = 64;  // of the data, NumPy's own choice

// {'descr': '<i4', 'fortran_order': False, 'shape': (114,), }  and spaces up to the alignment.
std::string make_header(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", dtype, npy_shape_text(shape));
  const std::size_t unpadded = kMagic.size() + 2 + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// What follows `key` in the header's dictionary.
std::string_view after(std::string_view header, std::string_view key, const std::string& file) {
  const std::size_t at = header.find(key);
  TS_CHECK(at != std::string_view::npos, "{}: not a .npy header: it has no {}", file, key);
  return header.substr(at + key.size());
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& file) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = text.data() + std::min(text.find(')'), text.size());
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    TS_CHECK(error == std::errc() && size >= 0, "{}: not a .npy shape: ({})", file,
             std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
    shape.push_back(size);
    at = next;
  }
  return shape;
}

std::size_t dtype_bytes(std::string_view dtype) {
  return dtype.ends_with('8') ? 8 : dtype.ends_with('4') ? 4 : 0;
}

}  // namespace

std::string npy_shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

NpyWriter::NpyWriter(const std::filesystem::path& path, std::string_view dtype,
                     const std::vector<std::int64_t>& shape)
    : file_(path), dtype_(dtype) {
  for (const std::int64_t size : shape) num_left_ *= size;
  file_.write(make_header(dtype, shape));
}

void NpyWriter::flush() {
  TS_ASSERT(num_left_ == 0);
  file_.flush();
}

void NpyWriter::commit() {
  TS_ASSERT(num_left_ == 0);
  file_.commit();
}

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
  const std::string file = path.string();
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  TS_CHECK(text.size() >= kMagic.size() + 2 && text.starts_with(kMagic),
           "{}: not a .npy file of version 1.0: found {} bytes that do not start with its magic", file,
           text.size());
  const auto low = static_cast<unsigned char>(text[8]), high = static_cast<unsigned char>(text[9]);
  data_offset_ = kMagic.size() + 2 + (static_cast<std::size_t>(high) << 8 | low);
  TS_CHECK(text.size() >= data_offset_, "{}: truncated: found {} bytes, the header alone has {}", file,
           text.size(), data_offset_);
  TS_CHECK(data_offset_ % sizeof(std::int64_t) == 0,
           "{}: found a header of {} bytes, expected as many as NumPy writes, a multiple of 16", file,
           data_offset_);
  const std::string_view header = text.substr(0, data_offset_);
  const std::string_view dtype = after(header, "'descr': '", file);
  dtype_ = dtype.substr(0, dtype.find('\''));
  TS_CHECK(dtype_bytes(dtype_) > 0 && dtype_.starts_with('<'),
           "{}: found elements of {}, expected <i4, <u4 or <i8", file, dtype_);
  TS_CHECK(after(header, "'fortran_order': ", file).starts_with("False"), "{}: expected C order", file);
  shape_ = parse_shape(after(header, "'shape': (", file), file);

  // Compared by division, so that a foreign number cannot overflow.
  std::size_t left = (text.size() - data_offset_) / dtype_bytes(dtype_);
  bool whole = (text.size() - data_offset_) % dtype_bytes(dtype_) == 0;
  for (const std::int64_t size : shape_) {
    if (size == 0) break;
    whole = whole && left % static_cast<std::size_t>(size) == 0;
    left /= static_cast<std::size_t>(size);
  }
  const bool empty = std::find(shape_.begin(), shape_.end(), 0) != shape_.end();
  TS_CHECK(empty ? text.size() == data_offset_ : whole && left == 1,
           "{}: truncated or foreign: the shape {} of {} does not fit {} bytes of data", file,
           npy_shape_text(shape_), dtype_, text.size() - data_offset_);
}

}  // namespace tessera
