#include "tessera/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "tessera/base/atomic_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartialSuffix = ".partial";
constexpr std::string_view kReplacedSuffix = ".replaced";

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

// The step of "step-00000100"; nothing for any other name.
std::optional<std::int64_t> parse_step_name(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return step_name(step) == name ? std::optional(step) : std::nullopt;
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  TS_CHECK(!error, "cannot rename {} to {}: {}", from.string(), to.string(), error.message());
}

void remove_or_fail(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  TS_CHECK(!error, "cannot delete {}: {}", folder.string(), error.message());
}

// A folder under a temporary name; removed with all it holds unless published.
class PartialFolder {
 public:
  explicit PartialFolder(fs::path final_path) : final_(std::move(final_path)), partial_(final_) {
    partial_ += kPartialSuffix;
    create_folder(partial_);
  }
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const fs::path& path() const { return partial_; }

  void publish() {
    sync_folder(partial_);
    std::error_code unreadable;
    if (fs::exists(final_, unreadable)) {
      swap_with_final();
    } else {
      rename_or_fail(partial_, final_);
    }
    sync_folder(final_.parent_path());
  }

 private:
  // Exchanging the two names leaves no instant without a checkpoint of this step. File systems that
  // cannot (some network ones) get two renames; either way the old one ends as partial_, and goes.
  void swap_with_final() {
    if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) == 0) return;
    TS_CHECK(errno == EINVAL || errno == ENOSYS, "cannot exchange {} and {}: {}", partial_.string(),
             final_.string(), errno_text(errno));
    fs::path replaced = final_;
    replaced += kReplacedSuffix;
    rename_or_fail(final_, replaced);
    rename_or_fail(partial_, final_);
    rename_or_fail(replaced, partial_);
  }

  fs::path final_;
  fs::path partial_;
};

// Deleting by way of the partial name: a crash halfway leaves no folder that looks complete.
void delete_checkpoint(const fs::path& folder) {
  fs::path partial = folder;
  partial += kPartialSuffix;
  rename_or_fail(folder, partial);
  remove_or_fail(partial);
}

// The names in run_dir; none when there is no such folder yet.
std::vector<std::string> list_names(const fs::path& run_dir) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(run_dir, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  TS_CHECK(!error || error == std::errc::no_such_file_or_directory, "cannot list {}: {}", run_dir.string(),
           error.message());
  return names;
}

// What a crash in the middle of an earlier save or deletion left behind. One that was to be replaced stays
// where nothing has replaced it.
std::vector<fs::path> leftovers(const fs::path& run_dir) {
  std::vector<fs::path> found;
  for (const std::string& name : list_names(run_dir)) {
    for (const std::string_view suffix : {kPartialSuffix, kReplacedSuffix}) {
      if (!name.ends_with(suffix)) continue;
      const std::string step = name.substr(0, name.size() - suffix.size());
      if (!parse_step_name(step)) continue;
      if (suffix == kPartialSuffix || fs::exists(run_dir / step)) found.push_back(run_dir / name);
    }
  }
  return found;
}

void delete_leftovers(const fs::path& run_dir) {
  for (const fs::path& folder : leftovers(run_dir)) remove_or_fail(folder);
}

// keep_last 0: none.
std::vector<fs::path> outdated(const fs::path& run_dir, std::int64_t step, int keep_last) {
  std::vector<fs::path> found;
  if (keep_last == 0) return found;
  const auto checkpoints = list_checkpoints(run_dir);
  auto newest = checkpoints.upper_bound(step);
  for (int kept = 0; kept < keep_last && newest != checkpoints.begin(); ++kept) --newest;
  for (auto old = checkpoints.begin(); old != newest; ++old) found.push_back(old->second);
  return found;
}

void delete_outdated(const fs::path& run_dir, std::int64_t step, int keep_last) {
  for (const fs::path& folder : outdated(run_dir, step, keep_last)) delete_checkpoint(folder);
}

// Those that have a manifest, or those that have none.
std::map<std::int64_t, fs::path> step_folders(const fs::path& run_dir, bool complete) {
  std::map<std::int64_t, fs::path> folders;
  for (const std::string& name : list_names(run_dir)) {
    const auto step = parse_step_name(name);
    if (!step) continue;
    const fs::path manifest = run_dir / name / kManifestName;
    std::error_code unreadable;
    const bool found = fs::exists(manifest, unreadable);
    TS_CHECK(!unreadable || unreadable == std::errc::not_a_directory, "cannot read {}: {}", manifest.string(),
             unreadable.message());
    if (found == complete) folders[*step] = run_dir / name;
  }
  return folders;
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const CheckpointInfo& info,
                         std::span<const CheckpointFile> files, int keep_last) {
  TS_CHECK(info.step >= 0 && info.consumed_samples >= 0,
           "checkpoint: found step {} and {} consumed samples, expected none below 0", info.step,
           info.consumed_samples);
  const fs::path folder = run_dir / step_name(info.step);
  delete_leftovers(run_dir);
  PartialFolder partial(folder);
  Manifest manifest{info, {}};
  for (const CheckpointFile& file : files) {
    TS_CHECK(is_checkpoint_file_name(file.name) && !manifest.files.contains(file.name),
             "{}: \"{}\" cannot name a file of the checkpoint, or names two", folder.string(), file.name);
    manifest.files[file.name] =
        write_safetensors(partial.path() / file.name, file.tensors, {{"format", "pt"}});
  }
  write_file(partial.path() / kManifestName, format_manifest(manifest));
  partial.publish();
  delete_outdated(run_dir, info.step, keep_last);
  return folder;
}

bool checkpoints_are_tidy(const fs::path& run_dir, std::int64_t step, int keep_last) {
  return leftovers(run_dir).empty() && outdated(run_dir, step, keep_last).empty();
}

void tidy_checkpoints(const fs::path& run_dir, std::int64_t step, int keep_last) {
  delete_leftovers(run_dir);
  delete_outdated(run_dir, step, keep_last);
}

std::map<std::int64_t, fs::path> list_checkpoints(const fs::path& run_dir) {
  return step_folders(run_dir, /*complete=*/true);
}

std::map<std::int64_t, fs::path> list_broken_checkpoints(const fs::path& run_dir) {
  return step_folders(run_dir, /*complete=*/false);
}

std::optional<fs::path> find_latest_checkpoint(const fs::path& run_dir) {
  const auto checkpoints = list_checkpoints(run_dir);
  if (checkpoints.empty()) return std::nullopt;
  return checkpoints.rbegin()->second;
}

LoadedCheckpoint::LoadedCheckpoint(const fs::path& folder)
    : folder_(folder), manifest_(read_manifest(folder / kManifestName)) {
  const std::int64_t step = manifest_.info.step;
  TS_CHECK(parse_step_name(folder.filename().string()).value_or(step) == step,
           "{}: found step {}, expected that of its folder's name", (folder / kManifestName).string(), step);
  for (const auto& [name, digest] : manifest_.files) {
    const fs::path path = folder_ / name;
    std::error_code error;
    const auto num_bytes = fs::file_size(path, error);
    TS_CHECK(!error, "{}: listed in {} but not readable: {}", path.string(), kManifestName, error.message());
    TS_CHECK(static_cast<std::int64_t>(num_bytes) == digest.num_bytes, "{}: found {} bytes, expected {}",
             path.string(), num_bytes, digest.num_bytes);
  }
}

const SafetensorsReader& LoadedCheckpoint::file(const std::string& file_name) {
  const auto opened = opened_.find(file_name);
  if (opened != opened_.end()) return opened->second;
  const auto listed = manifest_.files.find(file_name);
  TS_CHECK(listed != manifest_.files.end(), "{}: no file \"{}\" in its {}", folder_.string(), file_name,
           kManifestName);
  // The hash before the header: a damaged file is reported as damaged, not as odd JSON.
  MappedFile mapped(folder_ / file_name);
  const FileDigest found = digest_of(mapped.bytes());
  TS_CHECK(found == listed->second,
           "{}: damaged: found {} bytes with XXH3-128 {}, expected {} bytes with {}; a run goes on from the "
           "checkpoint before it once {} is moved away",
           mapped.path().string(), found.num_bytes, found.xxh3_128, listed->second.num_bytes,
           listed->second.xxh3_128, folder_.string());
  return opened_.emplace(file_name, std::move(mapped)).first->second;
}

}  // namespace tessera
