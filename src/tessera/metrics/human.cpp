#include "tessera/metrics/human.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tessera {
namespace {

// Three digits or so: one decimal below 100, none above. 999.96 is 1.0 of the next unit, not "1000.0".
std::string scaled(double value, std::string_view space, std::string_view unit) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  if (!std::isfinite(value)) return "?";
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const int decimals = prefix > 0 && std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}{}{}", value, decimals, space, kPrefixes[prefix], unit);
}

}  // namespace

std::string human_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e12)) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  const std::int64_t minutes = total / 60;
  if (minutes < 24 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const std::int64_t hours = minutes / 60;
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string human_count(double value) {
  return scaled(value, "", "");
}

std::string human_bytes(double bytes) {
  return scaled(bytes, " ", "B");
}

}  // namespace tessera
