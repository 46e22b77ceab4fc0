// Checkpoint: a training run's state on disk, whole or not there at all.
//
// One folder per step, RUN_DIR/step-00000100/, with any number of safetensors files and a manifest of
// their sizes and hashes. Written by the trainer every so many steps, opened by resume, evaluation and
// generation. The tensors are whole, not a rank's shard: any layout reads what any other wrote.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/safetensors.h"

namespace tessera {

struct CheckpointFile {
  std::string name;  // "weights.safetensors"
  std::vector<NamedTensor> tensors;
};

// Writes RUN_DIR/step-NNNNNNNN.partial, flushes it to the disk, then renames it; a checkpoint of the
// same step is replaced. On an error (a full disk, say) the unfinished folder is removed and what was
// there before is untouched; after a crash the next save clears it away.
//
// With keep_last > 0, then deletes checkpoints of earlier steps until only the newest keep_last up to
// this step are left; those of later steps (of a run resumed from further back) always stay. One
// process at a time may save into a run_dir. Returns the checkpoint's folder.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const CheckpointInfo& info,
                                      std::span<const CheckpointFile> files, int keep_last = 0);

// A save that was killed after its checkpoint had its name may have left some that it was to delete. `step`
// is its step.
bool checkpoints_are_tidy(const std::filesystem::path& run_dir, std::int64_t step, int keep_last);
void tidy_checkpoints(const std::filesystem::path& run_dir, std::int64_t step, int keep_last);

// The checkpoint of the highest step, or nothing when there is none (or no run_dir).
std::optional<std::filesystem::path> find_latest_checkpoint(const std::filesystem::path& run_dir);

// Complete checkpoints by step.
std::map<std::int64_t, std::filesystem::path> list_checkpoints(const std::filesystem::path& run_dir);
// What has a checkpoint's name and no manifest: damaged later, as a folder is named when all is in it.
std::map<std::int64_t, std::filesystem::path> list_broken_checkpoints(const std::filesystem::path& run_dir);

class LoadedCheckpoint {
 public:
  // Reads the manifest and checks that each of its files is there with the right size.
  explicit LoadedCheckpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointInfo& info() const { return manifest_.info; }
  bool contains(const std::string& file_name) const { return manifest_.files.contains(file_name); }

  // The first call for a file checks its hash, so that who wants the weights need not read the
  // optimizer's state. Not for several threads at once, though they may share the reader.
  const SafetensorsReader& file(const std::string& file_name);

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsReader> opened_;
};

}  // namespace tessera
