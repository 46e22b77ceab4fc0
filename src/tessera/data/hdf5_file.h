// Hdf5File: the little of HDF5 that BERT's shards need: whole datasets of integers, in and out.
//
// Used by bert_shard. Safe to use from many threads: the library is not, so every call takes its one lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/atomic_file.h"

namespace tessera {

class Hdf5File {
 public:
  explicit Hdf5File(const std::filesystem::path& path);  // read-only; throws Error naming the file
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Throws Error when there is no such dataset, naming those there are.
  std::vector<std::int64_t> shape(const std::string& name) const;

  // All elements, whatever integers the file has; T is std::int32_t or std::int8_t. Throws Error when the
  // dataset is not of integers, or larger than the memory.
  template <class T>
  std::vector<T> read(const std::string& name) const;

 private:
  std::int64_t open_dataset(const std::string& name) const;
  std::size_t num_elements(const std::string& name, const std::vector<std::uint64_t>& dims,
                           std::size_t element_bytes) const;

  std::filesystem::path path_;
  std::int64_t file_ = -1;
};

// A file in the making, in memory until it is written whole.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // Compressed as h5py's "gzip" is, in chunks of whole rows. T as in Hdf5File::read.
  template <class T>
  void write(const std::string& name, const std::vector<T>& values, const std::vector<std::int64_t>& shape);
  std::unique_ptr<AtomicFile> finish();  // written, but neither flushed nor under its name
  void commit();                         // with both

 private:
  std::filesystem::path path_;
  std::int64_t file_ = -1;
};

}  // namespace tessera
