#include "tessera/metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/metrics/tf_record.h"

namespace tessera {
namespace {

constexpr std::string_view kNameStart = "events.out.tfevents.";

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kNameStart)) files.push_back(entry.path());
  }
  return files;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// Readers take files in the order of their names: first by the second of their start, then by their number.
std::filesystem::path next_name(const std::filesystem::path& folder, double wall_time) {
  return folder /
         fmt::format("{}{:010.0f}.{}.{:04}", kNameStart, wall_time, host_name(), event_files(folder).size());
}

}  // namespace

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t resumed_step) {
  create_folder(folder);
  if (resumed_step == 0)
    for (const auto& file : event_files(folder)) std::filesystem::remove(file);
  const double now = wall_time_now();
  path_ = next_name(folder, now);
  file_ = std::fopen(path_.c_str(), "wxe");
  TS_CHECK(file_, "cannot open {}: {}", path_.string(), errno_text(errno));
  append(version_event(now));
  if (resumed_step > 0) append(session_start_event(now, resumed_step + 1));
}

EventFile::~EventFile() {
  std::fclose(file_);
}

void EventFile::append(std::string_view event) {
  const std::string record = tf_record(event);
  const bool written =
      std::fwrite(record.data(), 1, record.size(), file_) == record.size() && std::fflush(file_) == 0;
  TS_CHECK(written, "cannot write {}: {}", path_.string(), errno_text(errno));
}

void EventFile::append_scalars(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars) {
  append(scalars_event(wall_time, step, scalars));
}

void EventFile::append_text(double wall_time, std::int64_t step, std::string_view tag,
                            std::string_view text) {
  // Summaries of text are told apart by this ending of their tags; a fence keeps the lines as they are.
  append(
      text_event(wall_time, step, fmt::format("{}/text_summary", tag), fmt::format("```\n{}\n```\n", text)));
}

}  // namespace tessera
