#include "tessera/comm/mpi/pending_sends.h"

#include <cstring>

#include "tessera/comm/mpi/mpi_call.h"

namespace tessera::mpi {

// The smallest that fits and is delivered, or a new one of just this size. Asking MPI about each also lets it
// work on those that are under way.
PendingSends::Message& PendingSends::free_message(int bytes) {
  Message* best = nullptr;
  for (Message& message : messages_) {
    int delivered = 0;
    check_mpi(MPI_Test(&message.request, &delivered, MPI_STATUS_IGNORE), "MPI_Test");
    if (delivered == 0 || message.capacity < bytes) continue;
    if (best == nullptr || message.capacity < best->capacity) best = &message;
  }
  if (best != nullptr) return *best;
  messages_.push_back({std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)), bytes});
  return messages_.back();
}

void PendingSends::send(const void* data, int bytes, int to, int tag, MPI_Comm comm) {
  Message& message = free_message(bytes);
  if (bytes > 0) std::memcpy(message.data.get(), data, static_cast<std::size_t>(bytes));
  check_mpi(MPI_Isend(message.data.get(), bytes, MPI_BYTE, to, tag, comm, &message.request), "MPI_Isend");
}

void PendingSends::wait() {
  for (Message& message : messages_) check_mpi(MPI_Wait(&message.request, MPI_STATUS_IGNORE), "MPI_Wait");
}

}  // namespace tessera::mpi
