// Communicator: how the ranks of a run talk. A group of ranks, each holding its own Communicator of it; a
// collective is called by every rank of the group, with the same sizes and in the same order.
//
// Made by run_local_ranks (comm/local: rank = thread) and run_mpi_rank (comm/mpi: rank = process), which give
// a program the communicator of all its ranks, the world; split cuts it into one per mesh axis. The runtime
// calls it for the collective nodes of a plan, pipeline schedules for their sends and receives.
//
// Every reduction adds in ascending order of rank, ((r0 + r1) + r2) + ..., and rounds once: bf16 is added in
// f32. The result has the same bits on every rank and in every implementation, whatever the sizes. Nothing
// allocates once each size has been seen, and as many messages at once as ever are on their way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"

namespace tessera {

// Where the parts of a tensor that is cut over the ranks lie: the whole is [outer, size * inner], and a
// rank's part is `outer` strips of `inner` elements, contiguous in its own buffer. outer = 1 cuts the leading
// dim.
struct Strips {
  std::int64_t outer = 1;
  std::int64_t inner = 0;

  bool operator==(const Strips&) const = default;
};

// The largest tag that every MPI has.
inline constexpr int kMaxTag = 32767;

// A NaN of any rank gives a NaN under both.
enum class Reduction : std::uint8_t { sum, max };

// Thrown by a call that waits for ranks of which one has failed. Never the cause of a failure, so whoever
// runs the ranks reports that rank's own exception and drops these.
class PeerFailed : public Error {
 public:
  using Error::Error;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  virtual void all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction) = 0;

  // `part` and `whole` do not overlap, except that with outer = 1 the part may be its own place in the whole.
  virtual void all_gather(const void* part, void* whole, Strips strips, DType dtype) = 0;
  virtual void reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                              Reduction reduction) = 0;

  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;

  // Messages of one sender with one tag arrive in the order in which they were sent. A send copies the data
  // and returns without waiting for the receiver: neighbours may both send before they receive. Tags: 0 to
  // kMaxTag.
  virtual void send(const void* data, std::int64_t bytes, int to, int tag) = 0;
  virtual void receive(void* data, std::int64_t bytes, int from, int tag) = 0;

  virtual void barrier() = 0;

  // One communicator per color (0 or more), its members in the order of (key, rank). Collective; groups of
  // different splits may be used at the same time by different ranks.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Ends every rank of the world, not only of this group. The message reaches the user, with the rank's
  // number.
  [[noreturn]] virtual void abort(const std::string& message) = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

}  // namespace tessera
