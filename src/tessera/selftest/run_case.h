// run_case: an OpCase on two devices, compared. Called by `tessera selftest`.
#pragma once

#include <functional>
#include <memory>

#include "tessera/ops/op_def.h"
#include "tessera/runtime/device.h"
#include "tessera/selftest/op_case.h"

namespace tessera {

struct CaseResult {
  double error = 0;     // of the worst output, over all ranks
  std::string problem;  // what else is wrong: stray writes, other bits in a second run or in place
  double seconds = 0;   // of one run on the tested device; 0: not timed
  Cost cost;            // of one rank, of all nodes
  std::string link;     // how the ranks talked; empty: one rank, or through the host as ever

  bool passed(const OpCase& op_case) const { return problem.empty() && error <= op_case.bound; }
};

struct DevicePair {
  std::unique_ptr<Device> reference, tested;
};

// Each rank of a case with several has a pair of its own, made when it is first needed and kept.
struct SelftestDevices {
  DevicePair alone;
  std::function<DevicePair(int rank)> make_for_rank;
  std::vector<DevicePair> of_ranks = {};
};

struct CaseOptions {
  std::uint64_t seed = 0;
  bool timed = false;
  bool expects_fused = false;  // of the tested device: a pair that it does not run as one is a problem
};

// Operands are a function of the seed, the case and the rank.
CaseResult run_case(const OpCase& op_case, SelftestDevices& devices, const CaseOptions& options);

// "add", or "add+rms_norm" of a pair.
std::string case_ops(const OpCase& op_case);
// "add [8,1024,768] [768] bf16"
std::string case_name(const OpCase& op_case);

}  // namespace tessera
