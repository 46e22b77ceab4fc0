// NullDevice: runs nothing and allocates nothing. Plans are made for it without the real device.
#pragma once

#include "tessera/runtime/device.h"

namespace tessera {

std::unique_ptr<Device> make_null_device();

}  // namespace tessera
