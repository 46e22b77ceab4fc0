// LocalCommunicator: one rank's end of a LocalGroup. Each rank is a thread, so a collective reads and writes
// its peers' buffers where they lie; nothing is copied twice but messages, and what is too short to matter.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/local/local_group.h"

namespace tessera::local {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank);

  void all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction) override;
  void all_gather(const void* part, void* whole, Strips strips, DType dtype) override;
  void reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                      Reduction reduction) override;
  void broadcast(void* data, std::int64_t bytes, int root) override;
  void send(const void* data, std::int64_t bytes, int to, int tag) override;
  void receive(void* data, std::int64_t bytes, int from, int tag) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  [[noreturn]] void abort(const std::string& message) override;

 private:
  // Shows this call to the other ranks and waits until all show theirs. True if the data was short and
  // travelled inside, so that the call ends without ranks().finish().
  bool publish(const Call& call, const void* source, std::int64_t bytes, void* target);
  void meet_for(const Call& call);
  Published& shown_by(int rank) { return group_->published(rank, turn_); }

  // Calls f(share, begin, length) for the blocks of every rank's share, [0, share_bytes) each; every block is
  // worked on by one rank. Called by all ranks between publish and finish.
  template <class F>
  void work_on_blocks(std::int64_t share_bytes, F f);

  // What the others show, for reduce_ascending: their sources, or their targets, from `offset` bytes on.
  std::span<const void* const> sources(std::int64_t offset);
  std::span<void* const> targets(std::int64_t offset);

  std::shared_ptr<LocalGroup> group_;
  unsigned turn_ = 0;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

}  // namespace tessera::local
