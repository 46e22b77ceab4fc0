#include "tessera/comm/local/mailbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/comm/communicator.h"

namespace tessera::local {
namespace {

void copy_message(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

// The smallest that fits, or a new one of just this size.
Mailbox::Buffer Mailbox::buffer_for(std::int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) throw PeerFailed("another rank failed");
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->capacity >= bytes && (best == free_.end() || it->capacity < best->capacity)) best = it;
    }
    if (best != free_.end()) {
      std::swap(*best, free_.back());
      Buffer buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  return {std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)), bytes};
}

// The copies are made outside of the lock: two senders to one rank copy at the same time.
void Mailbox::put(int from, int tag, const void* data, std::int64_t bytes) {
  Buffer buffer = buffer_for(bytes);
  copy_message(buffer.data.get(), data, bytes);
  {
    std::lock_guard lock(mutex_);
    messages_.push_back({from, tag, bytes, std::move(buffer)});
  }
  arrived_.notify_one();
}

std::vector<Mailbox::Message>::iterator Mailbox::find(int from, int tag) {
  return std::ranges::find_if(messages_, [&](const Message& m) { return m.from == from && m.tag == tag; });
}

void Mailbox::take(int from, int tag, void* data, std::int64_t bytes) {
  Message message;
  {
    std::unique_lock lock(mutex_);
    auto found = messages_.end();
    arrived_.wait(lock, [&] { return failed_ || (found = find(from, tag)) != messages_.end(); });
    if (failed_) throw PeerFailed("another rank failed");
    message = std::move(*found);
    messages_.erase(found);
  }
  TS_CHECK(message.bytes == bytes, "receive from rank {}, tag {}: found a message of {} bytes, expected {}",
           from, tag, message.bytes, bytes);
  copy_message(data, message.buffer.data.get(), bytes);
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(message.buffer));
}

void Mailbox::fail() {
  {
    std::lock_guard lock(mutex_);
    failed_ = true;
  }
  arrived_.notify_all();
}

}  // namespace tessera::local
