#include "tessera/backend/cuda/gemm_choices.h"

#include <charconv>
#include <sstream>

#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

constexpr const char* kTitle = "tessera products, ";
constexpr std::size_t kDigits = 16;  // of a hexadecimal number

}  // namespace

std::string choices_machine(const std::string& gpu, std::size_t library_version) {
  return fmt::format("{}, cublasLt {}", gpu, library_version);
}

// A title, then one product a line: its key in decimal, its algorithm in hexadecimal.
std::string choices_text(const GemmChoices& choices, const std::string& machine) {
  std::string text = kTitle + machine + "\n";
  for (const auto& [key, algorithm] : choices.algorithms) {
    for (std::int64_t part : key) text += fmt::format("{} ", part);
    for (std::uint64_t word : algorithm.data) text += fmt::format(" {:016x}", word);
    text += "\n";
  }
  return text;
}

GemmChoices parse_choices(const std::string& text, const std::string& name, const std::string& machine) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  TS_CHECK(line.starts_with(kTitle), "{}: is no table of products made by `tessera tune`", name);
  const std::string found = line.substr(std::string(kTitle).size());
  TS_CHECK(found == machine, "{}: was made on {}, but this is {}: run `tessera tune` here", name, found,
           machine);
  GemmChoices choices;
  for (int number = 2; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    ProductKey key{};
    cublasLtMatmulAlgo_t algorithm{};
    for (std::int64_t& part : key) words >> part;
    bool whole = true;
    for (std::uint64_t& word : algorithm.data) {
      std::string digits;
      words >> digits;
      const char* const end = digits.data() + digits.size();
      // A number cut off in the middle would be a number, too, and another algorithm.
      whole = whole && digits.size() == kDigits && std::from_chars(digits.data(), end, word, 16).ptr == end;
    }
    std::string more;
    TS_CHECK(whole && !(words >> more), "{}:{}: expected {} decimal and {} hexadecimal numbers of {} digits",
             name, number, key.size(), std::size(algorithm.data), kDigits);
    choices.algorithms[key] = algorithm;
  }
  return choices;
}

}  // namespace tessera::cuda
