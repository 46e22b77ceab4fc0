// SafetensorsFolder: a model's tensors as Hugging Face stores them, in one file or in many.
//
// Opens a .safetensors file, or a folder with model.safetensors, or a folder whose
// model.safetensors.index.json says which shard holds which tensor. The models' importers read from it
// without knowing which.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/checkpoint/safetensors.h"

namespace tessera {

class SafetensorsFolder {
 public:
  // Opens and checks every shard; throws an Error naming the file that is missing or unsound.
  explicit SafetensorsFolder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }  // shard by shard, in file order
  bool contains(std::string_view name) const { return reader_of_.contains(name); }
  const StoredTensor& info(std::string_view name) const { return reader_of(name).info(name); }
  void check(std::string_view name, DType dtype, const Shape& shape) const {
    reader_of(name).check(name, dtype, shape);
  }
  void read(std::string_view name, TensorView destination) const { reader_of(name).read(name, destination); }

 private:
  void open_single(const std::filesystem::path& file);
  void open_indexed(const std::filesystem::path& index);
  const SafetensorsReader& reader_of(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<SafetensorsReader> readers_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> reader_of_;  // tensor to its place in readers_
};

}  // namespace tessera
