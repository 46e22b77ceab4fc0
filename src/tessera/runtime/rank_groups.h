// RankGroups: one rank's place on the mesh and its communicators, one per group of ranks, and beside each, if
// the device has its own way to talk, the same on its memory. Made by whoever starts the ranks, from the
// communicator of all of them; the kernels of collectives use it through their call, and so do those that
// must know which part of a cut dim is theirs.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/graph/mesh.h"

namespace tessera {

class Device;
class DeviceCommunicator;
class DeviceLink;
class DeviceMessages;

struct RankGroupOptions {
  int head_copies = 1;       // ranks that share key and value heads
  Device* device = nullptr;  // this rank's; null: everything goes through host memory
  bool dp_of_one = false;    // a group of dp also where a rank is alone there; for tests
};

class RankGroups {
 public:
  // Collective over the world, whose ranks are those of the mesh.
  RankGroups(Communicator& world, const Mesh& mesh, const RankGroupOptions& options = {});
  ~RankGroups();

  const Mesh& mesh() const { return mesh_; }
  const Coordinates& at() const { return at_; }
  Communicator& world() const { return world_; }
  Communicator& group(Group group) const;
  // Null: through the host.
  DeviceCommunicator* on_device(Group group) const {
    return device_groups_[static_cast<std::size_t>(group)].get();
  }
  DeviceMessages* messages() const { return messages_.get(); }  // between the ranks of Group::pp
  const std::string& link_text() const { return link_text_; }   // how devices talk; empty: they are the host

 private:
  Communicator& world_;
  Mesh mesh_;
  Coordinates at_;
  std::array<std::unique_ptr<Communicator>, kNumGroups> groups_;  // null where one rank would be alone
  std::string link_text_;
  // These use the groups above, so they stand below and go first. Of them the communicators: where a rank has
  // failed, they end kernels that wait for it, which freeing the messages' memory would wait for.
  std::unique_ptr<DeviceLink> link_;
  std::unique_ptr<DeviceMessages> messages_;
  std::array<std::unique_ptr<DeviceCommunicator>, kNumGroups> device_groups_;
};

}  // namespace tessera
