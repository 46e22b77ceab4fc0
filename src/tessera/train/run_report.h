// The report of a run: its folder as one self-contained HTML page: final numbers, curves, layout, memory, the
// pipeline's timeline, the config. Written by a run at its end and by `tessera report` at any time.
#pragma once

#include <filesystem>
#include <string>

namespace tessera {

// The files of a run's folder that are read again.
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kRunConfigFile = "run.yaml";
inline constexpr const char* kPlanFile = "plan.json";

// Refuses a folder that is not a run's, a run without a step, and lines that are not a step's metrics. A last
// line that was cut off is left out, and the page says so.
std::string run_report_html(const std::filesystem::path& run_folder);

void write_run_report(const std::filesystem::path& run_folder, const std::filesystem::path& out);

}  // namespace tessera
