// AtomicFile: a file that appears under its name whole or not at all.
//
// Bytes go to NAME.partial; commit() flushes them to the disk and renames. Every write is checked, so
// a full disk throws an Error that names the file, and the unfinished file is removed. Files that belong
// together are all flushed before the first is committed: what a disk refuses, it refuses by then. Of several
// writers at once each has an unfinished file of its own (NAME.partial2, ...), and the last to commit wins.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tessera {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  // without commit(): removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Whether no other process had it open for writing when this one began.
  bool is_only_writer() const { return only_writer_; }
  void flush();
  // Flushes, and keeps no descriptor until commit(): where more files wait for theirs than a process may have
  // open. Another writer of the name is then the caller's to keep away, as by a FolderLock.
  void flush_and_close();
  void commit();  // flushes first, if that was not done

 private:
  bool open_partial(int number);
  [[noreturn]] void fail_with_errno(const char* action);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  bool committed_ = false;
  bool only_writer_ = true;
  bool flushed_ = false;
};

void write_file(const std::filesystem::path& path, std::string_view text);

// With those above it. An error begins with `key`, the config's that names the folder, if there is one.
void create_folder(const std::filesystem::path& folder, std::string_view key = {});

// Whether create_folder and then files in it are allowed, found out without a trace: for work that takes long
// before it writes. Throws as create_folder does.
void check_can_write_into(const std::filesystem::path& folder, std::string_view key = {});

// Makes a rename inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

}  // namespace tessera
