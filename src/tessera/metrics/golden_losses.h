// GoldenLosses: the losses that a run is expected to take, step by step, from a text file with one number per
// line: line i is the loss of step i. Checked by the training loop where metrics.golden_losses is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

class GoldenLosses {
 public:
  // |loss - golden| may be `relative_tolerance` times |golden|.
  GoldenLosses(const std::filesystem::path& path, double relative_tolerance);

  // Throws an Error that names the step, both losses and the tolerance. Steps count from 1; those beyond the
  // file's last line pass.
  void check(std::int64_t step, double loss) const;

  std::size_t size() const { return losses_.size(); }

 private:
  std::string path_;
  double relative_tolerance_;
  std::vector<double> losses_;
};

}  // namespace tessera
