// JsonlLog: the metrics of a run as a file of JSON lines, one per step, each step once.
// Written by the training loop; read back for the curves.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tessera/metrics/step_report.h"

namespace tessera {

class JsonlLog {
 public:
  // Keeps the lines up to resumed_step: those after it were of steps that the resumed run takes again.
  // 0 starts anew.
  JsonlLog(std::filesystem::path path, std::int64_t resumed_step);
  ~JsonlLog();
  JsonlLog(const JsonlLog&) = delete;
  JsonlLog& operator=(const JsonlLog&) = delete;

  void append(const StepReport& report);  // on its way to the disk when this returns

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

// A last line that was cut off, as by a power failure, is left out; any other line that is not a step's
// metrics is refused with its number. A file that does not exist has no lines.
std::vector<StepReport> read_jsonl_log(const std::filesystem::path& path);

}  // namespace tessera
