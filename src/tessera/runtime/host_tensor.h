// HostTensor: a device's tensor as the host sees it: the tensor itself where the host can read the device's
// memory, else a copy. Used where weights are read and written and logits looked at.
#pragma once

#include <vector>

#include "tessera/runtime/device.h"

namespace tessera {

class HostTensor {
 public:
  // Copies the tensor here if it must.
  HostTensor(Device& device, const TensorView& there) : device_(device), there_(there), here_(there) {
    if (device.host_can_read()) return;
    copy_.resize(static_cast<std::size_t>(there.num_bytes()));
    device.download(copy_, static_cast<const std::byte*>(there.data));
    here_.data = copy_.data();
  }
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;

  const TensorView& view() const { return here_; }
  // What the host has written to the view becomes the device's.
  void write_back() {
    if (!copy_.empty()) device_.upload(static_cast<std::byte*>(there_.data), copy_);
  }

 private:
  Device& device_;
  TensorView there_, here_;
  std::vector<std::byte> copy_;
};

}  // namespace tessera
