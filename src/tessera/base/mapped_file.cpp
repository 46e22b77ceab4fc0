#include "tessera/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // A pipe would otherwise be waited for until somebody writes into it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TS_CHECK(descriptor >= 0, "cannot open {}: {}", path.string(), errno_text(errno));
  struct stat info {};
  const bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  if (regular && info.st_size > 0) {  // mmap refuses an empty range; an empty file stays {nullptr, 0}
    size_ = static_cast<std::size_t>(info.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  const int code = errno;
  ::close(descriptor);
  TS_CHECK(regular, "cannot read {}: it is not a regular file", path.string());
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail("cannot map {}: {}", path.string(), errno_text(code));
  }
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::int64_t regular_file_bytes(const std::filesystem::path& path) {
  struct stat info {};
  TS_CHECK(::stat(path.c_str(), &info) == 0, "cannot read {}: {}", path.string(), errno_text(errno));
  TS_CHECK(S_ISREG(info.st_mode), "cannot read {}: it is not a regular file", path.string());
  return info.st_size;
}

std::string read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace tessera
