#include "tessera/runtime/device.h"

namespace tessera {

bool Device::fuses(const Graph&, const Node&, const Node&) const {
  return false;
}

void Device::run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second) {
  run(first_op, first);
  run(second_op, second);
}

void Device::mark(std::size_t moment) {
  if (moments_.size() <= moment) moments_.resize(moment + 1);
  moments_[moment] = std::chrono::steady_clock::now();
}

double Device::seconds_between(std::size_t from, std::size_t to) {
  return std::chrono::duration<double>(moments_[to] - moments_[from]).count();
}

}  // namespace tessera
