#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/train/run_report.h"

namespace tessera {
namespace {

// Of what lies in a run's folder only pages may be written over: all else is the run's own.
void check_report_file(const std::filesystem::path& folder, const std::filesystem::path& out) {
  std::error_code error;
  if (out.extension() == ".html" || !std::filesystem::is_regular_file(out, error)) return;
  const auto run = std::filesystem::weakly_canonical(folder), file = std::filesystem::weakly_canonical(out);
  const bool inside = std::ranges::mismatch(run, file).in1 == run.end();
  TS_CHECK(!inside, "--out: would write {} over a file of the run in {}: expected another file, or a new one",
           out.string(), folder.string());
}

}  // namespace

int report_command(int argc, const char* const* argv) {
  std::string folder, out;
  Options options(
      "tessera report",
      "Write the numbers, curves, layout, memory, pipeline and config of a run as one HTML page; also of a "
      "run that is still going.");
  options.positional("RUN_DIR", &folder, "folder of the run (train.out)");
  options.option("--out FILE", &out, "the page; without it RUN_DIR/report.html");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  if (out.empty()) out = (std::filesystem::path(folder) / "report.html").string();
  check_report_file(folder, out);
  write_run_report(folder, out);
  std::printf("report  %s\n", out.c_str());
  return 0;
}

}  // namespace tessera
