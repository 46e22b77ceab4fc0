#include "tessera/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path_, error);
  // The rename would put a file in the place of a device such as /dev/null, for everybody.
  TS_CHECK(!std::filesystem::exists(found) || std::filesystem::is_regular_file(found),
           "cannot write {}: found {}, expected a file or nothing yet", path_.string(),
           std::filesystem::is_directory(found) ? "a folder" : "a device or a pipe");
  partial_ += ".partial";
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  TS_CHECK(descriptor_ >= 0, "cannot create {}: {}", partial_.string(), errno_text(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void AtomicFile::fail_with_errno(const char* action) {
  fail("cannot {} {}: {}", action, partial_.string(), errno_text(errno));
}

void AtomicFile::write(const void* data, std::size_t num_bytes) {
  const char* at = static_cast<const char*>(data);
  while (num_bytes > 0) {
    const ssize_t written = ::write(descriptor_, at, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write");
    at += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_with_errno("flush");
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    const int code = errno;
    ::unlink(partial_.c_str());
    fail("cannot close {}: {}", partial_.string(), errno_text(code));
  }
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) {
    ::unlink(partial_.c_str());
    fail("cannot rename {} to {}: {}", partial_.string(), path_.string(), error.message());
  }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void create_folder(const std::filesystem::path& folder, std::string_view key) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TS_CHECK(!error, "{}{}cannot create folder {}: {}", key, key.empty() ? "" : ": ", folder.string(),
           error.message());
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  TS_CHECK(descriptor >= 0, "cannot open folder {}: {}", folder.string(), errno_text(errno));
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  TS_CHECK(code == 0, "cannot flush folder {}: {}", folder.string(), errno_text(code));
}

}  // namespace tessera
