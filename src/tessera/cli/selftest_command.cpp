#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/selftest/link_check.h"
#include "tessera/selftest/run_case.h"
#include "tessera/train/from_config.h"

namespace tessera {
namespace {

struct SelftestArguments {
  std::string device = "cuda", op, match, share;
  std::int64_t seed = 1234;
  bool pairs = false, small = false, untimed = false, brief = false, large = false, quiet = false,
       list = false, no_cudnn = false;
};

DevicePair make_devices(const SelftestArguments& arguments, int rank, int threads) {
  RunConfig reference, tested;
  apply_overrides(tested, std::vector<std::string>{"device=" + arguments.device});
  tested.cuda.cudnn = !arguments.no_cudnn;
  reference.threads = tested.threads = threads;
  return {make_device_of_rank(reference, rank), make_device_of_rank(tested, rank)};
}

// What the work amounts to: by arithmetic where there is much of it per byte, else by bytes.
std::string speed_of(const CaseResult& result) {
  if (result.seconds == 0) return "";
  const double flops = result.cost.flops;
  const auto bytes = static_cast<double>(result.cost.bytes);
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

bool is_of_op(const OpCase& op_case, const SelftestArguments& arguments) {
  if (arguments.pairs && !op_case.next) return false;
  return arguments.op.empty() || arguments.op == op_name(op_case.op) || arguments.op == case_ops(op_case);
}

bool is_asked_for(const OpCase& op_case, const SelftestArguments& arguments) {
  if (arguments.small && op_case.large) return false;
  if (arguments.brief && most_elements(op_case) > kBriefElements) return false;
  if (arguments.large && most_elements(op_case) <= kBriefElements) return false;
  return case_name(op_case).find(arguments.match) != std::string::npos;
}

// The cases that --share names of these: shares differ by one case at most, and each has some of every kind.
std::vector<OpCase> share_of(const std::string& share, std::vector<OpCase> cases) {
  if (share.empty()) return cases;
  std::size_t number = 0, shares = 0;
  const char* const end = share.data() + share.size();
  const auto [slash, error] = std::from_chars(share.data(), end, number);
  const bool whole = error == std::errc() && slash != end && *slash == '/' &&
                     std::from_chars(slash + 1, end, shares).ptr == end;
  TS_CHECK(whole && number >= 1 && number <= shares,
           "--share: found '{}', expected K/N, the K-th share of N, as 2/4", share);
  TS_CHECK(shares <= cases.size(), "--share {}: there are {} cases only", share, cases.size());
  std::vector<OpCase> own;
  for (std::size_t i = number - 1; i < cases.size(); i += shares) own.push_back(std::move(cases[i]));
  return own;
}

std::vector<OpCase> cases_asked_for(const SelftestArguments& arguments) {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [&](const OpCase& op_case) { return !is_of_op(op_case, arguments); });
  TS_CHECK(!cases.empty(), "--op {}: there is no {} of this name", arguments.op,
           arguments.pairs ? "pair" : "op");
  std::erase_if(cases, [&](const OpCase& op_case) { return !is_asked_for(op_case, arguments); });
  TS_CHECK(
      !cases.empty(), "{} leaves no case; --list alone prints all names",
      arguments.match.empty() ? "--small, --brief or --large" : fmt::format("--match '{}'", arguments.match));
  return share_of(arguments.share, std::move(cases));
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
  options.option("--match TEXT", &arguments.match, "only cases that have it in their name: bf16, ', of 128'");
  options.option("--share K/N", &arguments.share,
                 "the K-th of N shares of the cases, for N programs side by side");
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
  options.flag("--list", &arguments.list, "only print the names of the cases that would run");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(arguments.device == "cpu" || arguments.device == "cuda",
           "--device: found '{}', expected cpu or cuda", arguments.device);
  TS_CHECK(!arguments.brief || !arguments.large, "--brief and --large leave nothing");

  const std::vector<OpCase> cases = cases_asked_for(arguments);
  if (arguments.list) {
    for (const OpCase& op_case : cases) fmt::print("{}\n", case_name(op_case));
    return 0;
  }
  keep_freed_memory();
  // Ranks are threads already, so each has one of its own.
  SelftestDevices devices{make_devices(arguments, 0, 0),
                          [&](int rank) { return make_devices(arguments, rank, 1); }};
  Tally tally;
  if (arguments.op.empty() && !arguments.pairs && arguments.match.empty())
    check_and_print_link(*devices.alone.tested, arguments, tally);
  for (const OpCase& op_case : cases) run_and_print(op_case, devices, arguments, tally);
  for (const std::string& remark : devices.alone.tested->remarks()) fmt::print("{}\n", remark);
  fmt::print("{} on {}: {} cases passed, {} failed\n", "selftest", arguments.device, tally.passed,
             tally.failed.size());
  for (const std::string& line : tally.failed) fmt::print("{}\n", line);
  return tally.failed.empty() ? 0 : 1;
}

}  // namespace tessera
