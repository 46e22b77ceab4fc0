// RunFolder: train.out as a training finds it. Whether there is a checkpoint to go on from, the same for all
// ranks; and from lock() on, that nobody else writes there.
//
// Made first of all by the training loop.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "tessera/base/folder_lock.h"
#include "tessera/comm/communicator.h"
#include "tessera/train/run_config.h"

namespace tessera {

class RunFolder {
 public:
  // Collective over the world, which is null on one rank. Throws Error for a folder that holds checkpoints
  // where none is to be gone on from, for one that holds only broken ones where one is, and for ranks that do
  // not see the same folder. `config` is kept.
  RunFolder(const RunConfig& config, bool resume, Communicator* world);

  const std::optional<std::filesystem::path>& newest() const { return newest_; }  // to go on from
  // Otherwise first asked for when the data are ready and the step is compiled. On rank 0.
  void check_can_be_written() const;
  // From now on this run alone writes there, and nobody has since newest() was looked for. On rank 0.
  void lock();
  // Deletes what a save of `step` that was killed has left. After lock().
  void tidy(std::int64_t step);
  bool is_tidy(std::int64_t step) const;

 private:
  std::optional<std::filesystem::path> newest_of_all(Communicator* world) const;

  const RunConfig& config_;
  std::optional<std::filesystem::path> newest_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace tessera
