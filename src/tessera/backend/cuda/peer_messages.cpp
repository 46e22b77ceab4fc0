#include "tessera/backend/cuda/peer_messages.h"

#include <algorithm>
#include <iterator>

#include "tessera/backend/cuda/shared_by_ranks.h"
#include "tessera/base/alignment.h"

namespace tessera::cuda {

PeerMessages::Block::Block(std::int64_t num_bytes) : bytes(num_bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, static_cast<std::size_t>(num_bytes)), "allocate messages' buffers");
  data = static_cast<std::byte*>(memory);
}

void PeerMessages::Pool::add(int to, std::int64_t num_bytes, std::int64_t count) {
  const std::int64_t stride = align_up(num_bytes);
  const Block& block = blocks_.emplace_back(count * stride);
  for (std::int64_t i = 0; i < count; ++i) buffers_.emplace_back(to, block.data + i * stride, num_bytes);
}

// Who asks for as many again, as an evaluation beside a training does, shares those that are there.
void PeerMessages::Pool::reserve(int to, std::int64_t num_bytes, int count) {
  const std::lock_guard lock(mutex_);
  const auto is_such = [&](const Buffer& b) { return b.receiver == to && b.bytes == num_bytes; };
  const std::int64_t have = std::ranges::count_if(buffers_, is_such);
  if (have < count) add(to, num_bytes, count - have);
}

std::int64_t PeerMessages::Pool::bytes() {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const Block& block : blocks_) sum += block.bytes;
  return sum;
}

// There is always one, if enough were reserved; a run that reserved too few is not lost for it. One that was
// never used comes first: its event is made by its first receive, and later steps are to make nothing.
PeerMessages::Buffer& PeerMessages::Pool::take(int to, std::int64_t num_bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Buffer& b) { return !b.in_use && b.receiver == to && b.bytes == num_bytes; };
  auto found = std::ranges::find_if(buffers_, [&](const Buffer& b) { return fits(b) && !b.emptied; });
  if (found == buffers_.end()) found = std::ranges::find_if(buffers_, fits);
  if (found == buffers_.end()) {
    add(to, num_bytes, 1);
    found = std::prev(buffers_.end());
  }
  found->in_use = true;
  return *found;
}

void PeerMessages::Pool::give_back(Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  buffer.in_use = false;
}

PeerMessages::PeerMessages(Communicator& group)
    : host_(group), pools_(shared_by_ranks(group, std::make_shared<Pool>())) {}

void PeerMessages::reserve(int to, std::int64_t bytes, int count) {
  own_pool().reserve(to, bytes, count);
}

std::int64_t PeerMessages::reserved_bytes() const {
  return own_pool().bytes();
}

void PeerMessages::send(const void* data, std::int64_t bytes, int to, int tag, DeviceStream stream) {
  Buffer* const buffer = &own_pool().take(to, bytes);
  if (buffer->emptied) buffer->emptied->hold(stream);
  check_cuda(cudaMemcpyAsync(buffer->data, data, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream),
             "copy a message");
  buffer->filled.record(stream);
  host_.send(&buffer, sizeof(buffer), to, tag);
}

void PeerMessages::receive(void* data, std::int64_t bytes, int from, int tag, DeviceStream stream) {
  Buffer* buffer = nullptr;
  host_.receive(&buffer, sizeof(buffer), from, tag);
  TS_CHECK(buffer->bytes == bytes, "receive from rank {}, tag {}: found {} bytes, expected {}", from, tag,
           buffer->bytes, bytes);
  buffer->filled.hold(stream);
  check_cuda(cudaMemcpyAsync(data, buffer->data, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream),
             "copy a message");
  if (!buffer->emptied) buffer->emptied.emplace();
  buffer->emptied->record(stream);
  pools_[static_cast<std::size_t>(from)]->give_back(*buffer);
}

}  // namespace tessera::cuda
