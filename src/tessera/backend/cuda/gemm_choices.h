// GemmChoices: which of cuBLASLt's algorithms computes each product, as a search on this kind of GPU found
// (gemm_search.h). Kept as text by `tessera tune`; GemmPlans asks it first. A run that is given the same
// choices gives the same bits; one that searched anew might not.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace tessera::cuda {

// Shape, types, leading dims and alignment of a product: what an algorithm is chosen by.
using ProductKey = std::array<std::int64_t, 18>;

struct GemmChoices {
  std::map<ProductKey, cublasLtMatmulAlgo_t> algorithms;
};

// What choices are good for: "NVIDIA H200, cublasLt 130100".
std::string choices_machine(const std::string& gpu, std::size_t library_version);

std::string choices_text(const GemmChoices& choices, const std::string& machine);

// Refuses text that is no such table or was made on another machine; `name` is the file, for messages.
GemmChoices parse_choices(const std::string& text, const std::string& name, const std::string& machine);

}  // namespace tessera::cuda
