// golden_check: a model folder with references made by another system (see tests/golden/README.md):
// logits, loss and every gradient of the first step, and a whole short training, compared number by
// number. The one program by which every device, precision and layout is checked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/train/run_config.h"

namespace tessera {

struct GoldenLine {
  std::string quantity;  // "logits", "grad model.norm.weight", "loss of steps 1 to 19"
  double error = 0;      // relative
  double bound = 0;
  bool passed() const { return error <= bound; }  // false for NaN
};

// Relative to the reference; norms are L2 over a tensor. docs/numerics.md says where they come from.
struct GoldenBounds {
  double logits = 5e-6;
  double gradient = 1e-5;
  double first_loss = 2e-6;
  double later_loss = 5e-4;
  double grad_norm = 1e-3;
  double final_weights = 1e-3;
};
GoldenBounds golden_bounds(PrecisionName precision);

// `config` gives precision, device, threads, recompute, train.micro_batch and the layout; the folder gives
// the rest. Every rank of the layout calls it with its communicator (null on one rank) and gets the same
// lines.
std::vector<GoldenLine> run_golden_check(const std::filesystem::path& folder, RunConfig config,
                                         Communicator* world);

}  // namespace tessera
