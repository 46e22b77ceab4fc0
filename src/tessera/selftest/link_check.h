// check_link: that a device's way to talk between ranks refuses a wrong call in good order, where it can:
// NCCL then aborts its communicator, and the error names the rank and the call. Called by `tessera selftest`.
#pragma once

#include <string>

#include "tessera/runtime/device.h"

namespace tessera {

struct LinkCheck {
  std::string text;  // how one rank on this device would talk, and what was found
  bool passed = true;
};
LinkCheck check_link(Device& device);

}  // namespace tessera
