#include "tessera/metrics/jsonl_log.h"

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"

namespace tessera {

JsonlLog::JsonlLog(std::filesystem::path path, std::int64_t resumed_step) : path_(std::move(path)) {
  std::string kept;
  if (resumed_step > 0) {
    for (const StepReport& report : read_jsonl_log(path_))
      if (report.step <= resumed_step) kept += to_json_line(report) + "\n";
  }
  write_file(path_, kept);
  file_ = std::fopen(path_.c_str(), "ae");
  TS_CHECK(file_, "cannot open {}: {}", path_.string(), errno_text(errno));
}

JsonlLog::~JsonlLog() {
  std::fclose(file_);
}

void JsonlLog::append(const StepReport& report) {
  const std::string line = to_json_line(report) + "\n";
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  TS_CHECK(written, "cannot write {}: {}", path_.string(), errno_text(errno));
}

std::vector<StepReport> read_jsonl_log(const std::filesystem::path& path) {
  std::vector<StepReport> reports;
  if (!std::filesystem::exists(path)) return reports;
  const std::string text = read_file(path);
  std::string_view rest = text;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    try {
      reports.push_back(parse_json_line(rest.substr(0, end)));
    } catch (const Error& error) {
      fail("{}:{}: {}", path.string(), line_number, error.what());
    }
    rest.remove_prefix(end + 1);
  }
  return reports;
}

}  // namespace tessera
