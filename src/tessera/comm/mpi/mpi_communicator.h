// MpiCommunicator: a Communicator whose ranks are processes. MPI carries the bytes and never adds:
// MPI_Allreduce may add in any order, so a reduction exchanges the pieces and reduce_ascending adds them.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/mpi/pending_sends.h"

namespace tessera::mpi {

class MpiCommunicator final : public Communicator {
 public:
  // Takes over `comm`. `sends` outlives this and all that are split from it.
  MpiCommunicator(MPI_Comm comm, PendingSends& sends);
  ~MpiCommunicator() override;

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
  void all_reduce_short(void* data, std::int64_t count, DType dtype, Reduction reduction);
  void all_reduce_segment(std::byte* data, std::int64_t count, DType dtype, Reduction reduction);
  std::byte* scratch(std::vector<std::byte>& buffer, std::int64_t bytes);
  std::span<const void* const> rows(const std::byte* first, std::int64_t row_bytes);

  MPI_Comm comm_;
  PendingSends& sends_;
  std::vector<std::byte> received_, packed_;  // one segment of what each rank gives
  std::vector<const void*> rows_;
  std::vector<int> piece_bytes_, piece_offsets_, row_bytes_,
      row_offsets_;  // for the MPI calls with many counts
};

// Prints the message and ends all ranks of the program with exit code 1.
[[noreturn]] void report_and_abort(int world_rank, const std::string& message);

}  // namespace tessera::mpi
