// How large a model's sizes may be, whoever names them: far beyond any model there is, and small enough that
// a slip such as a digit too many is refused by its key and not met as an overflow in what is multiplied from
// it.
#pragma once

#include <cstdint>
#include <limits>

namespace tessera {

inline constexpr std::int64_t kMaxWidth = 1 << 20;
inline constexpr std::int64_t kMaxFfnWidth = 16 * kMaxWidth;
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxIds = std::numeric_limits<std::int32_t>::max();  // ids are int32
inline constexpr std::int64_t kMaxPositions = 1 << 24;

}  // namespace tessera
