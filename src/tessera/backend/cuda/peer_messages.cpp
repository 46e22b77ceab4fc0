#include "tessera/backend/cuda/peer_messages.h"

#include <algorithm>

#include "tessera/backend/cuda/shared_by_ranks.h"

namespace tessera::cuda {

PeerMessages::Buffer::Buffer(int to, std::int64_t num_bytes) : receiver(to), bytes(num_bytes) {
  check_cuda(cudaMalloc(&data, static_cast<std::size_t>(num_bytes)), "allocate a message's buffer");
}

// Who asks for as many again, as an evaluation beside a training does, shares those that are there.
void PeerMessages::Pool::reserve(int to, std::int64_t num_bytes, int count) {
  const std::lock_guard lock(mutex);
  const auto is_such = [&](const Buffer& b) { return b.receiver == to && b.bytes == num_bytes; };
  for (auto have = std::ranges::count_if(buffers, is_such); have < count; ++have)
    buffers.emplace_back(to, num_bytes);
}

// There is always one, if enough were reserved; a run that reserved too few is not lost for it.
PeerMessages::Buffer& PeerMessages::Pool::take(int to, std::int64_t num_bytes) {
  const std::lock_guard lock(mutex);
  const auto fits = [&](const Buffer& b) { return !b.in_use && b.receiver == to && b.bytes == num_bytes; };
  const auto found = std::ranges::find_if(buffers, fits);
  Buffer& buffer = found != buffers.end() ? *found : buffers.emplace_back(to, num_bytes);
  buffer.in_use = true;
  return buffer;
}

void PeerMessages::Pool::give_back(Buffer& buffer) {
  const std::lock_guard lock(mutex);
  buffer.in_use = false;
}

PeerMessages::PeerMessages(Communicator& group)
    : host_(group), pools_(shared_by_ranks(group, std::make_shared<Pool>())) {}

void PeerMessages::reserve(int to, std::int64_t bytes, int count) {
  pools_[static_cast<std::size_t>(host_.rank())]->reserve(to, bytes, count);
}

void PeerMessages::send(const void* data, std::int64_t bytes, int to, int tag, DeviceStream stream) {
  Buffer* const buffer = &pools_[static_cast<std::size_t>(host_.rank())]->take(to, bytes);
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
