#include "tessera/data/hdf5_file.h"

#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/machine_memory.h"
#include "tessera/base/mapped_file.h"
#include "tessera/data/npy_file.h"

namespace tessera {
namespace {

constexpr unsigned kGzipLevel = 4;  // h5py's
constexpr std::int64_t kChunkBytes = 1 << 20;

// The state that this guards is the library's own and is one per process; so must be the lock. Its messages
// about errors go nowhere: ours name the file. A thread that left some behind would keep the library from
// closing when the program ends.
class LibraryLock {
 public:
  LibraryLock() : lock_(mutex_) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }
  ~LibraryLock() { H5Eclear2(H5E_DEFAULT); }
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  static inline std::mutex mutex_;
  std::lock_guard<std::mutex> lock_;
};

// An id of the library's, given back when it goes.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  hid_t get() const { return id_; }
  bool good() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

template <class T>
hid_t memory_type() {
  static_assert(std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int8_t>);
  return std::is_same_v<T, std::int32_t> ? H5T_NATIVE_INT32 : H5T_NATIVE_INT8;
}

herr_t append_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  *static_cast<std::string*>(names) +=
      (static_cast<std::string*>(names)->empty() ? "" : ", ") + std::string(name);
  return 0;
}

std::vector<std::uint64_t> dims_of(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  return {dims.begin(), dims.end()};
}

}  // namespace

Hdf5File::Hdf5File(const std::filesystem::path& path) : path_(path) {
  TS_CHECK(std::filesystem::exists(path), "cannot open {}: no such file", path.string());
  regular_file_bytes(path);  // or an Error: the library would wait for a pipe to be written into
  const LibraryLock lock;
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  TS_CHECK(file_ >= 0, "{}: not an HDF5 file, or one that is cut off", path.string());
}

Hdf5File::~Hdf5File() {
  const LibraryLock lock;
  H5Fclose(file_);
}

std::int64_t Hdf5File::open_dataset(const std::string& name) const {
  const hid_t dataset = H5Dopen2(file_, name.c_str(), H5P_DEFAULT);
  if (dataset >= 0) return dataset;
  std::string names;
  H5Literate(file_, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, append_name, &names);
  fail("{}: no dataset \"{}\", found: {}", path_.string(), name, names.empty() ? "none" : names);
}

std::vector<std::int64_t> Hdf5File::shape(const std::string& name) const {
  const LibraryLock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  const std::vector<std::uint64_t> dims = dims_of(dataset.get());
  return {dims.begin(), dims.end()};
}

// A file of a few bytes may promise more than there is memory for, and more than a number can say.
std::size_t Hdf5File::num_elements(const std::string& name, const std::vector<std::uint64_t>& dims,
                                   std::size_t element_bytes) const {
  const auto machine = static_cast<std::uint64_t>(machine_memory_bytes());
  std::uint64_t size = 1;
  const bool empty = std::ranges::find(dims, 0u) != dims.end();
  for (const std::uint64_t dim : dims) {
    TS_CHECK(
        empty || dim <= machine / element_bytes / size,
        "{}: dataset \"{}\" has shape {} of {} bytes each, expected no more than the {:.1f} GB of memory "
        "of this machine",
        path_.string(), name, npy_shape_text({dims.begin(), dims.end()}), element_bytes,
        static_cast<double>(machine) / 1e9);
    size *= dim;
  }
  return size;
}

template <class T>
std::vector<T> Hdf5File::read(const std::string& name) const {
  const LibraryLock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  TS_CHECK(H5Tget_class(type.get()) == H5T_INTEGER, "{}: dataset \"{}\" is not of integers", path_.string(),
           name);
  std::vector<T> values(num_elements(name, dims_of(dataset.get()), sizeof(T)));
  const herr_t status =
      H5Dread(dataset.get(), memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  TS_CHECK(status >= 0, "{}: dataset \"{}\" cannot be read: the file is damaged or cut off", path_.string(),
           name);
  return values;
}

template std::vector<std::int32_t> Hdf5File::read(const std::string&) const;
template std::vector<std::int8_t> Hdf5File::read(const std::string&) const;

Hdf5Writer::Hdf5Writer(std::filesystem::path path) : path_(std::move(path)) {
  const LibraryLock lock;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access.get(), 1 << 20, false);
  file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get());
  TS_CHECK(file_ >= 0, "{}: the HDF5 library cannot make a file in memory", path_.string());
}

Hdf5Writer::~Hdf5Writer() {
  const LibraryLock lock;
  H5Fclose(file_);
}

template <class T>
void Hdf5Writer::write(const std::string& name, const std::vector<T>& values,
                       const std::vector<std::int64_t>& shape) {
  const LibraryLock lock;
  std::vector<hsize_t> dims(shape.begin(), shape.end());
  hsize_t row = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) row *= dims[i];
  TS_ASSERT(!dims.empty() && dims[0] * row == values.size() && !values.empty());
  std::vector<hsize_t> chunk = dims;
  chunk[0] = std::clamp<hsize_t>(kChunkBytes / (row * sizeof(T)), 1, dims[0]);
  const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_deflate(layout.get(), kGzipLevel);
  const Handle dataset(
      H5Dcreate2(file_, name.c_str(), memory_type<T>(), space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
      H5Dclose);
  TS_CHECK(dataset.good() &&
               H5Dwrite(dataset.get(), memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0,
           "{}: the HDF5 library cannot write the dataset \"{}\"", path_.string(), name);
}

template void Hdf5Writer::write(const std::string&, const std::vector<std::int32_t>&,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, const std::vector<std::int8_t>&,
                                const std::vector<std::int64_t>&);

std::unique_ptr<AtomicFile> Hdf5Writer::finish() {
  std::vector<char> bytes;
  {
    const LibraryLock lock;
    H5Fflush(file_, H5F_SCOPE_GLOBAL);
    const ssize_t size = H5Fget_file_image(file_, nullptr, 0);
    TS_CHECK(size >= 0, "{}: the HDF5 library gives no image of the file", path_.string());
    bytes.resize(static_cast<std::size_t>(size));
    H5Fget_file_image(file_, bytes.data(), bytes.size());
  }
  auto file = std::make_unique<AtomicFile>(path_);
  file->write(bytes.data(), bytes.size());
  return file;
}

void Hdf5Writer::commit() {
  finish()->commit();
}

}  // namespace tessera
