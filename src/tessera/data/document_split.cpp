#include "tessera/data/document_split.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kPartNames = {"train", "valid", "test"};

std::vector<double> parse_weights(const std::string& text) {
  const char separator = text.find(',') != std::string::npos ? ',' : '/';
  std::vector<double> weights;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    const std::string word = text.substr(at, end - at);
    char* rest = nullptr;
    const double weight = std::strtod(word.c_str(), &rest);
    const bool whole =
        rest != word.c_str() && std::string_view(rest).find_first_not_of(' ') == std::string_view::npos;
    TS_CHECK(whole && std::isfinite(weight) && weight >= 0,
             "the split \"{}\": found \"{}\", expected weights of 0 or more such as 980,10,10", text, word);
    weights.push_back(weight);
    at = end + 1;
  }
  return weights;
}

}  // namespace

Part part_named(std::string_view name) {
  for (std::size_t i = 0; i < kPartNames.size(); ++i) {
    if (name == kPartNames[i]) return static_cast<Part>(i);
  }
  fail("found the part \"{}\", expected train, valid or test", name);
}

std::string_view part_name(Part part) {
  return kPartNames[static_cast<std::size_t>(part)];
}

std::array<DocumentRange, 3> split_documents(const std::string& text, std::int64_t num_documents) {
  std::vector<double> weights = parse_weights(text);
  weights.resize(3, 0.0);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  TS_CHECK(sum > 0, "the split \"{}\": its weights add up to 0", text);
  // Rounded half to even, then every bound but the first is moved by what the last one is off: Megatron's
  // below 0, too, where the first part has no weight.
  std::array<std::int64_t, 4> bounds{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = weights[i] / sum * static_cast<double>(num_documents);
    bounds[i + 1] = bounds[i] + static_cast<std::int64_t>(std::nearbyint(share));
  }
  const std::int64_t off = bounds[3] - num_documents;
  for (std::size_t i = 1; i < 4; ++i) bounds[i] = std::max<std::int64_t>(0, bounds[i] - off);
  return {DocumentRange{bounds[0], bounds[1]}, {bounds[1], bounds[2]}, {bounds[2], bounds[3]}};
}

}  // namespace tessera
