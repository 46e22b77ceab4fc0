#include "tessera/metrics/golden_losses.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

std::string read_losses(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const Error& error) {
    fail("metrics.golden_losses: {}; expected a file of losses, one per line", error.what());
  }
}

}  // namespace

GoldenLosses::GoldenLosses(const std::filesystem::path& path, double relative_tolerance)
    : path_(path.string()), relative_tolerance_(relative_tolerance) {
  const std::string text = read_losses(path);
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() && trimmed(rest).empty()) break;  // the file's end
    double loss = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), loss);
    TS_CHECK(error == std::errc() && stop == line.data() + line.size() && std::isfinite(loss),
             "{}:{}: found '{}', expected the loss of step {}", path_, number, line, number);
    losses_.push_back(loss);
  }
  TS_CHECK(!losses_.empty(), "{}: found no losses, expected one per line", path_);
}

void GoldenLosses::check(std::int64_t step, double loss) const {
  if (step > static_cast<std::int64_t>(losses_.size())) return;
  const double golden = losses_[static_cast<std::size_t>(step - 1)];
  TS_CHECK(
      std::abs(loss - golden) <= relative_tolerance_ * std::abs(golden),
      "step {}: loss {:.6g} is not within {:g} times the golden loss {:.6g} of {}: it is off by {:.4g} times",
      step, loss, relative_tolerance_, golden, path_, std::abs(loss - golden) / std::abs(golden));
}

}  // namespace tessera
