// The golden corpus of indexed datasets and the sample maps that Megatron makes of it; see
// tests/golden/megatron.
#pragma once

#include <filesystem>

namespace tessera {

inline const std::filesystem::path kGoldenMaps = TESSERA_SOURCE_DIR "/tests/golden/megatron";
inline const std::filesystem::path kGoldenCorpus = kGoldenMaps / "corpus";

}  // namespace tessera
