// PendingSends: the messages that this process has sent and MPI may not have delivered yet. One per process,
// shared by all its communicators; made by run_mpi_rank.
//
// A message is copied, so that the caller has its buffer back at once and MPI has one that stays. Finished
// ones are noticed when the next is sent, and their buffers taken again: a pipeline allocates only while more
// of them wait than ever before.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::mpi {

class PendingSends {
 public:
  void send(const void* data, int bytes, int to, int tag, MPI_Comm comm);
  void wait();  // until all are delivered

 private:
  struct Message {
    std::unique_ptr<std::byte[]> data;
    int capacity = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Message& free_message(int bytes);

  std::vector<Message> messages_;
};

}  // namespace tessera::mpi
