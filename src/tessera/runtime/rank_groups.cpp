#include "tessera/runtime/rank_groups.h"

#include "tessera/comm/device_communicator.h"
#include "tessera/runtime/device.h"

namespace tessera {

RankGroups::RankGroups(Communicator& world, const Mesh& mesh, const RankGroupOptions& options)
    : world_(world), mesh_(mesh), at_(coordinates_of(mesh, world.rank())) {
  TS_ASSERT(world.size() == mesh.num_ranks());
  const auto add = [&](Group group, bool wanted, int color, int key) {
    if (wanted) groups_[static_cast<std::size_t>(group)] = world.split(color, key);
  };
  add(Group::pp, mesh.pp > 1, at_.dp * mesh.tp + at_.tp, at_.pp);
  add(Group::dp, mesh.dp > 1 || options.dp_of_one, at_.pp * mesh.tp + at_.tp, at_.dp);
  add(Group::tp, mesh.tp > 1, at_.pp * mesh.dp + at_.dp, at_.tp);
  const int model = at_.pp * mesh.tp + at_.tp, group = at_.dp / mesh.ranges(), range = at_.dp % mesh.ranges();
  add(Group::ranges, mesh.has_copies(), model * mesh.dp + group, range);
  add(Group::copies, mesh.has_copies(), model * mesh.dp + range, group);
  // Every rank takes part in a split; the stages in between get groups that nobody uses.
  const bool end = at_.pp == 0 || at_.pp == mesh.pp - 1;
  const int color = at_.dp * mesh.tp + at_.tp;
  add(Group::ends, mesh.pp > 1, end ? color : mesh.dp * mesh.tp + world.rank(), at_.pp);
  add(Group::heads, options.head_copies > 1, world.rank() / options.head_copies, world.rank());
  if (options.device != nullptr) link_ = options.device->link(world);
  if (link_ == nullptr) return;
  link_text_ = link_->text();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g]) device_groups_[g] = link_->connect(*groups_[g]);
  }
  if (mesh.pp == 1) return;
  messages_ = link_->connect_messages(this->group(Group::pp));
  if (messages_ == nullptr && device_groups_[static_cast<std::size_t>(Group::pp)] != nullptr)
    link_text_ += ", the pipeline's messages through host memory";
}

RankGroups::~RankGroups() = default;

Communicator& RankGroups::group(Group group) const {
  Communicator* const communicator = groups_[static_cast<std::size_t>(group)].get();
  TS_ASSERT(communicator != nullptr);
  return *communicator;
}

}  // namespace tessera
