#include <malloc.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/selftest/link_check.h"
#include "tessera/selftest/run_case.h"
#include "tessera/train/from_config.h"

namespace tessera {
namespace {

struct SelftestArguments {
  std::string device = "cuda", op;
  std::int64_t seed = 1234;
  bool pairs = false, small = false, untimed = false, brief = false, large = false, quiet = false,
       list = false, no_cudnn = false;
};

// Ranks are threads already, so each has one of its own.
DevicePair make_devices(const std::string& device, bool cudnn, int threads) {
  RunConfig reference, tested;
  apply_overrides(tested, std::vector<std::string>{"device=" + device});
  tested.cuda.cudnn = cudnn;
  reference.threads = tested.threads = threads;
  return {make_device(reference), make_computing_device(tested)};
}

// What the work amounts to: by arithmetic where there is much of it per byte, else by bytes.
std::string speed_of(const CaseResult& result) {
  if (result.seconds == 0) return "";
  const auto flops = static_cast<double>(result.cost.flops), bytes = static_cast<double>(result.cost.bytes);
  if (flops > 50 * bytes)
    return fmt::format("{:10.3f} ms {:8.1f} TFLOP/s", 1e3 * result.seconds, flops / result.seconds / 1e12);
  return fmt::format("{:10.3f} ms {:8.1f} GB/s", 1e3 * result.seconds, bytes / result.seconds / 1e9);
}

struct Tally {
  int passed = 0;
  std::vector<std::string> failed;
};

void run_and_print(const OpCase& op_case, SelftestDevices& devices, const SelftestArguments& arguments,
                   Tally& tally) {
  CaseResult result;
  try {
    result = run_case(op_case, devices,
                      {.seed = static_cast<std::uint64_t>(arguments.seed),
                       .timed = !arguments.untimed && !arguments.brief && !arguments.large,
                       .expects_fused = arguments.device == "cuda"});
  } catch (const PeerFailed&) {
    throw;
  } catch (const Error& e) {
    result.problem = e.what();
  }
  const bool passed = result.passed(op_case);
  const std::string line = fmt::format(
      "{:<7}{:<78} error {:8.1e} bound {:8.1e} {}{}{}", passed ? "ok" : "FAILED", case_name(op_case),
      result.error, op_case.bound, speed_of(result), result.link.empty() ? "" : "  " + result.link,
      result.problem.empty() ? "" : "  " + result.problem);
  if (!arguments.quiet || !passed) fmt::print("{}\n", line);
  std::fflush(stdout);
  if (passed) {
    ++tally.passed;
  } else {
    tally.failed.push_back(line);
  }
}

void check_and_print_link(Device& device, const SelftestArguments& arguments, Tally& tally) {
  const LinkCheck link = check_link(device);
  const std::string line = fmt::format("{:<7}ranks: {}", link.passed ? "ok" : "FAILED", link.text);
  if (!arguments.quiet || !link.passed) fmt::print("{}\n", line);
  if (!link.passed) tally.failed.push_back(line);
}

// Host memory of one case serves the next: taken from the kernel anew, page by page, it would take longer
// than the work on it.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

constexpr std::int64_t kBriefElements = std::int64_t{1} << 22;

std::int64_t most_elements(const OpCase& op_case) {
  std::int64_t most = 0;
  for (const CaseInput& input : all_inputs(op_case)) most = std::max(most, input.type.shape.num_elems());
  return most;
}

bool is_asked_for(const OpCase& op_case, const SelftestArguments& arguments) {
  if (arguments.small && op_case.large) return false;
  if (arguments.brief && most_elements(op_case) > kBriefElements) return false;
  if (arguments.large && most_elements(op_case) <= kBriefElements) return false;
  if (arguments.pairs && !op_case.next) return false;
  return arguments.op.empty() || arguments.op == op_name(op_case.op) || arguments.op == case_ops(op_case);
}

// A pair is listed as its first op.
void list_ops(const std::vector<OpCase>& all, const SelftestArguments& arguments) {
  std::set<std::string_view> names;
  for (const OpCase& op_case : all) {
    if (is_asked_for(op_case, arguments)) names.insert(op_name(op_case.op));
  }
  for (const std::string_view name : names) fmt::print("{}\n", name);
}

}  // namespace

int selftest_command(int argc, const char* const* argv) {
  SelftestArguments arguments;
  Options options("tessera selftest",
                  "Run every op, and pairs that a device runs as one, on a device and on the CPU, on random "
                  "operands, and compare the results.");
  options.option("--device NAME", &arguments.device, "the device to test: cuda, or cpu against itself");
  options.option("--seed N", &arguments.seed, "of the operands");
  options.option("--op NAME", &arguments.op, "only this op's cases, or a pair's: add, add+rms_norm");
  options.flag("--pairs", &arguments.pairs, "only the cases of two ops that a device may run as one");
  options.flag("--small", &arguments.small, "leave out the cases that take a CPU long");
  options.flag("--untimed", &arguments.untimed, "time nothing: for compute-sanitizer");
  options.flag(
      "--brief", &arguments.brief,
      "as --untimed, and leave out operands of more than 4 million elements: under racecheck a device is a "
      "hundred times slower");
  options.flag("--large", &arguments.large, "as --untimed, and only what --brief leaves out");
  options.flag("--no-cudnn", &arguments.no_cudnn,
               "attention as where cuDNN is not installed (cuda.cudnn=false)");
  options.flag("--quiet", &arguments.quiet, "print only what fails");
  options.flag("--list", &arguments.list, "only name the ops that would run, as --op takes them");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(arguments.device == "cpu" || arguments.device == "cuda",
           "--device: found '{}', expected cpu or cuda", arguments.device);
  TS_CHECK(!arguments.brief || !arguments.large, "--brief and --large leave nothing");

  const std::vector<OpCase> all = op_cases();
  TS_CHECK(std::ranges::any_of(all, [&](const OpCase& c) { return is_asked_for(c, arguments); }),
           "--op {}: there is no {} of this name", arguments.op, arguments.pairs ? "pair" : "op");
  if (arguments.list) {
    list_ops(all, arguments);
    return 0;
  }
  keep_freed_memory();
  SelftestDevices devices{make_devices(arguments.device, !arguments.no_cudnn, 0),
                          [&] { return make_devices(arguments.device, !arguments.no_cudnn, 1); }};
  Tally tally;
  if (arguments.op.empty() && !arguments.pairs) check_and_print_link(*devices.alone.tested, arguments, tally);
  for (const OpCase& op_case : all) {
    if (is_asked_for(op_case, arguments)) run_and_print(op_case, devices, arguments, tally);
  }
  for (const std::string& remark : devices.alone.tested->remarks()) fmt::print("{}\n", remark);
  fmt::print("{} on {}: {} cases passed, {} failed\n", "selftest", arguments.device, tally.passed,
             tally.failed.size());
  for (const std::string& line : tally.failed) fmt::print("{}\n", line);
  return tally.failed.empty() ? 0 : 1;
}

}  // namespace tessera
