#include <cstdio>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/train/run_report.h"

namespace tessera {

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
  write_run_report(folder, out);
  std::printf("report  %s\n", out.c_str());
  return 0;
}

}  // namespace tessera
