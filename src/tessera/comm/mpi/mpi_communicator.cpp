#include "tessera/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "tessera/comm/mpi/mpi_call.h"
#include "tessera/comm/reduce_ascending.h"
#include "tessera/comm/strip_runs.h"

namespace tessera::mpi {
namespace {

// Up to this many bytes from all ranks together, everyone gets everything and adds for itself: one MPI call
// instead of two.
constexpr std::int64_t kShortBytes = 64 << 10;
// What all ranks together hold of a segment. A longer tensor is worked on segment by segment: scratch stays
// small and in the cache, and no count overflows MPI's int.
constexpr std::int64_t kSegmentBytes = 8 << 20;
// The longest message of one MPI call.
constexpr std::int64_t kMaxCallBytes = 1 << 30;

const std::byte* at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// Calls f(begin, length) for consecutive pieces of [0, total), none longer than `longest`.
template <class F>
void for_each_piece(std::int64_t total, std::int64_t longest, F f) {
  for (std::int64_t begin = 0; begin < total; begin += longest) f(begin, std::min(longest, total - begin));
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, PendingSends& sends)
    : Communicator(rank_in(comm), size_of(comm)), comm_(comm), sends_(sends) {
  const auto n = static_cast<std::size_t>(size());
  rows_.resize(n);
  for (std::vector<int>* counts : {&piece_bytes_, &piece_offsets_, &row_bytes_, &row_offsets_})
    counts->resize(n);
}

// Freeing is collective: a rank that fails must not wait in it for ranks that do not know.
MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

std::byte* MpiCommunicator::scratch(std::vector<std::byte>& buffer, std::int64_t bytes) {
  if (static_cast<std::int64_t>(buffer.size()) < bytes) buffer.resize(static_cast<std::size_t>(bytes));
  return buffer.data();
}

std::span<const void* const> MpiCommunicator::rows(const std::byte* first, std::int64_t row_bytes) {
  for (int r = 0; r < size(); ++r) rows_[r] = first + r * row_bytes;
  return rows_;
}

void MpiCommunicator::all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction) {
  if (size() == 1) return;
  const std::int64_t elem_bytes = dtype_bytes(dtype);
  if (count * elem_bytes * size() <= kShortBytes) return all_reduce_short(data, count, dtype, reduction);
  for_each_piece(count, kSegmentBytes / elem_bytes, [&](std::int64_t begin, std::int64_t length) {
    all_reduce_segment(at(data, begin * elem_bytes), length, dtype, reduction);
  });
}

void MpiCommunicator::all_reduce_short(void* data, std::int64_t count, DType dtype, Reduction reduction) {
  const auto bytes = static_cast<int>(count * dtype_bytes(dtype));
  std::byte* all = scratch(received_, kShortBytes);
  check_mpi(MPI_Allgather(data, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm_), "MPI_Allgather");
  reduce_ascending(rows(all, bytes), std::span<void* const>(&data, 1), count, dtype, reduction);
}

// Piece r of the segment goes to rank r, which adds it up; then everyone gets every sum.
void MpiCommunicator::all_reduce_segment(std::byte* data, std::int64_t count, DType dtype,
                                         Reduction reduction) {
  const std::int64_t elem_bytes = dtype_bytes(dtype);
  const std::int64_t piece = (count + size() - 1) / size();
  for (int r = 0; r < size(); ++r) {
    const std::int64_t begin = std::min(r * piece, count), end = std::min(begin + piece, count);
    piece_offsets_[r] = static_cast<int>(begin * elem_bytes);
    piece_bytes_[r] = static_cast<int>((end - begin) * elem_bytes);
  }
  const int own_bytes = piece_bytes_[rank()];
  for (int r = 0; r < size(); ++r) {
    row_offsets_[r] = r * own_bytes;
    row_bytes_[r] = own_bytes;
  }
  std::byte* received = scratch(received_, kSegmentBytes + size() * elem_bytes);
  check_mpi(MPI_Alltoallv(data, piece_bytes_.data(), piece_offsets_.data(), MPI_BYTE, received,
                          row_bytes_.data(), row_offsets_.data(), MPI_BYTE, comm_),
            "MPI_Alltoallv");
  void* own = data + piece_offsets_[rank()];
  reduce_ascending(rows(received, own_bytes), std::span<void* const>(&own, 1), own_bytes / elem_bytes, dtype,
                   reduction);
  check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, piece_bytes_.data(), piece_offsets_.data(),
                           MPI_BYTE, comm_),
            "MPI_Allgatherv");
}

void MpiCommunicator::all_gather(const void* part, void* whole, Strips strips, DType dtype) {
  const std::int64_t strip = strips.inner * dtype_bytes(dtype), part_bytes = strips.outer * strip;
  if (part_bytes == 0) return;
  if (strips.outer == 1 && part_bytes * size() <= kMaxCallBytes) {
    const bool in_place = part == at(whole, rank() * part_bytes);
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : part, static_cast<int>(part_bytes), MPI_BYTE, whole,
                            static_cast<int>(part_bytes), MPI_BYTE, comm_),
              "MPI_Allgather");
    return;
  }
  for_each_piece(part_bytes, kSegmentBytes / size(), [&](std::int64_t begin, std::int64_t length) {
    std::byte* received = scratch(received_, kSegmentBytes);
    const int bytes = static_cast<int>(length);
    check_mpi(MPI_Allgather(at(part, begin), bytes, MPI_BYTE, received, bytes, MPI_BYTE, comm_),
              "MPI_Allgather");
    for (int r = 0; r < size(); ++r) {
      for_each_strip_run(strip, size(), r, begin, length,
                         [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                           copy_bytes(at(whole, in_whole), received + r * length + (in_part - begin), run);
                         });
    }
  });
}

void MpiCommunicator::reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                                     Reduction reduction) {
  const std::int64_t elem_bytes = dtype_bytes(dtype);
  const std::int64_t strip = strips.inner * elem_bytes, part_bytes = strips.outer * strip;
  const std::int64_t longest = kSegmentBytes / size() / elem_bytes * elem_bytes;
  for_each_piece(part_bytes, longest, [&](std::int64_t begin, std::int64_t length) {
    std::byte* packed = scratch(packed_, kSegmentBytes);
    std::byte* received = scratch(received_, kSegmentBytes);
    for (int r = 0; r < size(); ++r) {
      for_each_strip_run(strip, size(), r, begin, length,
                         [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                           copy_bytes(packed + r * length + (in_part - begin), at(whole, in_whole), run);
                         });
    }
    const int bytes = static_cast<int>(length);
    check_mpi(MPI_Alltoall(packed, bytes, MPI_BYTE, received, bytes, MPI_BYTE, comm_), "MPI_Alltoall");
    void* sums = at(part, begin);
    reduce_ascending(rows(received, length), std::span<void* const>(&sums, 1), length / elem_bytes, dtype,
                     reduction);
  });
}

void MpiCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  for_each_piece(bytes, kMaxCallBytes, [&](std::int64_t begin, std::int64_t length) {
    check_mpi(MPI_Bcast(at(data, begin), static_cast<int>(length), MPI_BYTE, root, comm_), "MPI_Bcast");
  });
}

// A message that MPI's int cannot count travels as several, which keep their order.
void MpiCommunicator::send(const void* data, std::int64_t bytes, int to, int tag) {
  if (bytes == 0) sends_.send(nullptr, 0, to, tag, comm_);
  for_each_piece(bytes, kMaxCallBytes, [&](std::int64_t begin, std::int64_t length) {
    sends_.send(at(data, begin), static_cast<int>(length), to, tag, comm_);
  });
}

void MpiCommunicator::receive(void* data, std::int64_t bytes, int from, int tag) {
  const auto receive_piece = [&](std::int64_t begin, std::int64_t length) {
    MPI_Status status;
    check_mpi(MPI_Recv(at(data, begin), static_cast<int>(length), MPI_BYTE, from, tag, comm_, &status),
              "MPI_Recv");
    int found = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &found), "MPI_Get_count");
    TS_CHECK(found == length, "receive from rank {}, tag {}: found a message of {} bytes, expected {}", from,
             tag, found, length);
  };
  if (bytes == 0) receive_piece(0, 0);
  for_each_piece(bytes, kMaxCallBytes, receive_piece);
}

void MpiCommunicator::barrier() {
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  TS_CHECK(color >= 0, "split: found color {}, expected 0 or more", color);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(part, sends_);
}

void MpiCommunicator::abort(const std::string& message) {
  const int world_rank = rank_in(MPI_COMM_WORLD);
  report_and_abort(world_rank, fmt::format("rank {}: {}", world_rank, message));
}

}  // namespace tessera::mpi
