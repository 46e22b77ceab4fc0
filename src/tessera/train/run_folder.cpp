#include "tessera/train/run_folder.h"

#include <algorithm>
#include <array>

#include "tessera/base/atomic_file.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

// What was to be gone on with would be begun anew, and its log overwritten.
void check_no_broken_ones_alone(const std::string& folder) {
  const auto broken = list_broken_checkpoints(folder);
  TS_CHECK(broken.empty(),
           "--resume: {} has no {}, and {} holds no other checkpoint. Delete the folder to start anew",
           broken.rbegin()->second.string(), kManifestName, folder);
}

}  // namespace

RunFolder::RunFolder(const RunConfig& config, bool resume, Communicator* world)
    : config_(config), newest_(newest_of_all(world)) {
  const std::string& folder = config.train.out;
  TS_CHECK(resume || !newest_, "{} already holds {}: pass --resume to go on, or choose another train.out",
           folder, newest_->filename().string());
  if (resume && !newest_) check_no_broken_ones_alone(folder);
}

// Every rank reads it, so all have to see the one that rank 0 sees.
std::optional<std::filesystem::path> RunFolder::newest_of_all(Communicator* world) const {
  const std::filesystem::path folder = config_.train.out;
  TS_CHECK(!std::filesystem::exists(folder) || std::filesystem::is_directory(folder),
           "train.out = {}: found a file, expected a folder", folder.string());
  const std::optional<std::filesystem::path> newest = find_latest_checkpoint(folder);
  if (world == nullptr) return newest;
  const std::string own = newest ? newest->filename().string() : "none";
  std::array<char, 64> of_rank_0{};  // ends with zeros
  TS_ASSERT(own.size() < of_rank_0.size());
  std::ranges::copy(own, of_rank_0.begin());
  world->broadcast(of_rank_0.data(), of_rank_0.size(), 0);
  TS_CHECK(own == of_rank_0.data(),
           "train.out = {}: the newest checkpoint is {} here and {} on rank 0; expected one folder that all "
           "ranks see",
           config_.train.out, own, of_rank_0.data());
  return newest;
}

void RunFolder::check_can_be_written() const {
  const bool writes = !newest_ || LoadedCheckpoint(*newest_).info().step < config_.train.steps;
  if (writes) check_can_write_into(config_.train.out, "train.out");
}

void RunFolder::lock() {
  create_folder(config_.train.out, "train.out");
  lock_ = std::make_unique<FolderLock>(config_.train.out);
  TS_CHECK(find_latest_checkpoint(config_.train.out) == newest_, "another run has just written into {}",
           config_.train.out);
}

void RunFolder::tidy(std::int64_t step) {
  TS_ASSERT(lock_ != nullptr);
  tidy_checkpoints(config_.train.out, step, static_cast<int>(config_.train.keep_last));
}

bool RunFolder::is_tidy(std::int64_t step) const {
  return checkpoints_are_tidy(config_.train.out, step, static_cast<int>(config_.train.keep_last));
}

}  // namespace tessera
