#include "tessera/metrics/start_banner.h"

#include <fmt/format.h>

namespace tessera {

std::int64_t RunSize::steps_per_epoch() const {
  return examples == 0 ? 0 : (examples + total_batch() - 1) / total_batch();
}

std::int64_t RunSize::epochs() const {
  return examples == 0 ? 0 : steps / steps_per_epoch() + (steps % steps_per_epoch() > 0 ? 1 : 0);
}

std::string start_banner(const RunSize& size) {
  const auto line = [](const char* what, const std::string& value) {
    return fmt::format("\n  {:<18}{:>12}", what, value);
  };
  std::string text = "training";
  text += line("examples", fmt::format("{}", size.examples)) + fmt::format("  of {} tokens", size.seq_len);
  text +=
      line("epochs", fmt::format("{}", size.epochs())) + fmt::format("  of {} steps", size.steps_per_epoch());
  text += line("batch per device", fmt::format("{}", size.batch_per_device));
  text += line("accumulation", fmt::format("{}", size.accumulation));
  text += line("total batch", fmt::format("{}", size.total_batch())) +
          fmt::format("  = {} per device x {} accumulated x {} data-parallel", size.batch_per_device,
                      size.accumulation, size.data_parallel);
  text += line("steps", fmt::format("{}", size.steps));
  return text;
}

}  // namespace tessera
