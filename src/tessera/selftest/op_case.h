// OpCase: one op at one shape with random operands, as data, or two in a row that devices may run as one. The
// self test runs each on two devices and compares the results: `tessera selftest` lists them, run_case.h runs
// them. Shapes are those of real models and odd ones: no multiple of a vector, one row, one token, many equal
// ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/mesh.h"

namespace tessera {

struct CaseInput {
  enum class Fill : std::uint8_t {
    normal,   // of mean 0 and deviation `high`
    uniform,  // in [low, high)
    integer,  // in [low, high)
  };
  ValueType type;
  Fill fill = Fill::normal;
  double low = 0, high = 1;
};

// The node after a case's own, which reads its first output.
struct NextNode {
  Op op{};
  Attrs attrs;
  std::vector<CaseInput> inputs;  // its other operands
  std::size_t reads_at = 0;       // which of its operands that output is
  // Others read that output, too: it is compared, and nothing lies on it. Otherwise it need not be written.
  bool shared = false;
};

struct OpCase {
  Op op{};
  std::string label;  // what distinguishes it from the op's other cases: "[2048,768] x [3072,768]"
  Attrs attrs;
  std::vector<CaseInput> inputs;  // of every rank
  double bound = 0;               // on the error that compare_values finds
  Mesh mesh = {};                 // more than one rank: operands and attributes are a rank's
  bool grouped = false;           // one rank, alone in its group of dp: how its device talks, all the same
  bool large = false;             // takes a CPU more than a moment
  std::optional<NextNode> next = {};
};

// All operands: of a pair, those of the second node come last.
std::vector<CaseInput> all_inputs(const OpCase& op_case);

// Every op of op_list.def has at least one, and so does every pair of them that a device here fuses.
std::vector<OpCase> op_cases();

}  // namespace tessera
