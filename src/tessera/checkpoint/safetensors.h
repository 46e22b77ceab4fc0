// Safetensors: named tensors in one file, in the format Hugging Face reads and writes.
//
// Models exchange weights through it, checkpoints keep their state in it. The reader maps the file and
// copies out what is asked for; the writer streams, so neither holds a second copy of the tensors. What has
// to be made first (gathered from ranks, say) is made, written and dropped one tensor after the other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/mapped_file.h"
#include "tessera/base/tensor_view.h"
#include "tessera/checkpoint/file_digest.h"
#include "tessera/checkpoint/stored_dtype.h"

namespace tessera {

struct NamedTensor {
  std::string name;
  TensorView tensor;
  // Where the elements do not lie in memory, and `tensor` has no data: makes them when their turn comes.
  std::function<std::vector<float>()> make = {};
};

struct StoredTensor {
  StoredDType dtype = StoredDType::f32;
  Shape shape;
  std::span<const std::byte> bytes;  // in the mapped file, at any alignment
};

// Immutable once made: any number of threads may read from one reader.
class SafetensorsReader {
 public:
  // Both throw an Error naming the file unless its header is sound and fits the file's size.
  explicit SafetensorsReader(const std::filesystem::path& path);
  explicit SafetensorsReader(MappedFile file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<std::string>& names() const { return names_; }  // in the order of the file
  bool contains(std::string_view name) const { return tensors_.contains(name); }
  const StoredTensor& info(std::string_view name) const;  // throws when the name is missing

  // Throws unless the tensor is there with this very shape and can_convert to `dtype`.
  void check(std::string_view name, DType dtype, const Shape& shape) const;
  // Copies the tensor, converting; checked first.
  void read(std::string_view name, TensorView destination) const;

 private:
  MappedFile file_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> names_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

// Writes a file that appears whole or not at all, and returns its digest, taken on the way out. The
// tensors lie in Hugging Face's order (by dtype, then by name) whatever the order given, so equal
// tensors make equal files. transformers asks for {"format": "pt"} among the metadata.
FileDigest write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata = {});

// Makes what write_safetensors would make of these, in the same order, and drops it: for ranks without which
// another one cannot make what it writes.
void make_tensors(std::span<const NamedTensor> tensors);

}  // namespace tessera
