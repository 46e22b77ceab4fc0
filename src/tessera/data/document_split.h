// The cut of a corpus into training, validation and test documents by a string such as "980,10,10".
//
// Used by `tessera data index` and the training set-up; the rounding is Megatron's, so its runs keep their
// parts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class Part { train, valid, test };

// "train", "valid" or "test", as in the names of cached maps; another name is refused.
Part part_named(std::string_view name);
std::string_view part_name(Part part);

struct DocumentRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

// Up to three weights, separated by commas or slashes, divided by their sum. A part may be empty.
std::array<DocumentRange, 3> split_documents(const std::string& weights, std::int64_t num_documents);

}  // namespace tessera
