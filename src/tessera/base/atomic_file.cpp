#include "tessera/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Whether the descriptor is of the file that has this name now: another writer may have renamed or removed
// it since it was opened.
bool is_still_at(int descriptor, const std::filesystem::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool is_regular(int descriptor) {
  struct stat opened = {};
  return ::fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path_, error);
  // The rename would put a file in the place of a device such as /dev/null, for everybody.
  TS_CHECK(!std::filesystem::exists(found) || std::filesystem::is_regular_file(found),
           "cannot write {}: found {}, expected a file or nothing yet", path_.string(),
           std::filesystem::is_directory(found) ? "a folder" : "a device or a pipe");
  int number = 1;
  while (!open_partial(number)) ++number;
  only_writer_ = number == 1;
}

// False if another writer has it. What a writer that was killed has left is written over; on file systems
// without locks so is everything.
bool AtomicFile::open_partial(int number) {
  partial_ = path_;
  partial_ += number == 1 ? ".partial" : fmt::format(".partial{}", number);
  for (;;) {
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    TS_CHECK(descriptor_ >= 0, "cannot create {}: {}", partial_.string(), errno_text(errno));
    if (!is_regular(descriptor_)) return true;  // through a link to a device, which all writers share
    const bool taken = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && is_still_at(descriptor_, partial_)) break;
    ::close(std::exchange(descriptor_, -1));
    if (taken) return false;
  }
  if (::ftruncate(descriptor_, 0) == 0) return true;
  const int code = errno;
  ::close(std::exchange(descriptor_, -1));
  fail("cannot empty {}: {}", partial_.string(), errno_text(code));
}

// Renamed or removed before it is closed: then the next writer may have it.
AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(partial_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFile::fail_with_errno(const char* action) {
  fail("cannot {} {}: {}", action, partial_.string(), errno_text(errno));
}

void AtomicFile::write(const void* data, std::size_t num_bytes) {
  const char* at = static_cast<const char*>(data);
  flushed_ = false;
  while (num_bytes > 0) {
    const ssize_t written = ::write(descriptor_, at, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write");
    at += written;
    num_bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::flush() {
  if (::fsync(descriptor_) != 0) fail_with_errno("flush");
  flushed_ = true;
}

void AtomicFile::flush_and_close() {
  flush();
  ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::commit() {
  if (!flushed_) flush();
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  TS_CHECK(!error, "cannot rename {} to {}: {}", partial_.string(), path_.string(), error.message());
  committed_ = true;
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
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

void check_can_write_into(const std::filesystem::path& folder, std::string_view key) {
  const std::filesystem::path whole = std::filesystem::absolute(folder);
  std::filesystem::path there = whole;  // the nearest that exists decides
  std::error_code error;
  while (!std::filesystem::exists(there, error) && !error && there.has_relative_path())
    there = there.parent_path();
  if (!error && !std::filesystem::is_directory(there))
    error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    error.assign(errno, std::generic_category());
  TS_CHECK(!error, "{}{}cannot {} folder {}: {}", key, key.empty() ? "" : ": ",
           there == whole ? "write into" : "create", folder.string(), error.message());
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  TS_CHECK(descriptor >= 0, "cannot open folder {}: {}", folder.string(), errno_text(errno));
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  TS_CHECK(code == 0, "cannot flush folder {}: {}", folder.string(), errno_text(code));
}

}  // namespace tessera
