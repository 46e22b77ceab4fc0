// EventFile: a run's numbers as TensorBoard reads them: `tensorboard --logdir FOLDER`. Every start of a run
// adds one file to the folder, none is ever written again. Made by the training loop's reporter.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>

#include "tessera/metrics/event_message.h"

namespace tessera {

class EventFile {
 public:
  // After `resumed_step` the steps of earlier files are told to be forgotten: they are taken again. 0 starts
  // anew and removes earlier event files.
  EventFile(const std::filesystem::path& folder, std::int64_t resumed_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // On their way to the disk when these return. Times are seconds since 1970.
  void append_scalars(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars);
  // Shown as it is, in a fixed-width font.
  void append_text(double wall_time, std::int64_t step, std::string_view tag, std::string_view text);

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::string_view event);

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

// Seconds since 1970, as event files and logs count.
double wall_time_now();

}  // namespace tessera
