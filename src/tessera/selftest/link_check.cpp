#include "tessera/selftest/link_check.h"

#include "tessera/comm/device_communicator.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {

LinkCheck check_link(Device& device) {
  LinkCheck check;
  run_local_ranks(1, [&](Communicator& world) {
    const std::unique_ptr<DeviceLink> link = device.link(world);
    if (link == nullptr) {
      check.text = "its ranks talk as the host's do";
      return;
    }
    check.text = link->text();
    if (check.text.find("NCCL") == std::string::npos) {
      check.text += "; NCCL is not used, and not tested";
      return;
    }
    const std::unique_ptr<DeviceCommunicator> group = link->connect(world);
    const std::unique_ptr<DeviceMemory> memory = device.allocate(256);
    try {
      group->broadcast(memory->data(), 256, /*root=*/7, nullptr);
      check = {check.text + "; a broadcast from rank 7 of 1 was not refused", false};
    } catch (const Error& e) {
      const std::string message = e.what();
      check.passed = message.find("broadcast on rank 0 of 1") != std::string::npos;
      check.text += "; a broadcast from rank 7 of 1 is refused: " + message;
    }
  });
  return check;
}

}  // namespace tessera
