// compare_values: how far one device's result is from another's. Used by the self test.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/base/dtype.h"

namespace tessera {

// The largest |found - wanted| / max(|wanted|, rms of wanted) over the elements; infinite for a NaN that is
// not wanted. `rms` keeps elements that are small by cancellation from counting as if they were all there is.
double compare_values(DType dtype, std::span<const std::byte> found, std::span<const std::byte> wanted);

}  // namespace tessera
