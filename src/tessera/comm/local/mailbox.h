// Mailbox: the messages on their way to one rank of a LocalGroup. Any rank puts, its owner takes.
//
// A message is copied in and copied out, so that a sender never waits. Its buffer is kept for the next
// message that fits: a pipeline whose messages have the same sizes in every step allocates only while more of
// them wait than ever before, which depends on the ranks' speed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::local {

class Mailbox {
 public:
  void put(int from, int tag, const void* data, std::int64_t bytes);

  // The oldest message of that sender with that tag; waits for it. Throws PeerFailed after fail(), and Error
  // if the message has another size.
  void take(int from, int tag, void* data, std::int64_t bytes);

  void fail();  // from any thread; wakes the owner

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> data;
    std::int64_t capacity = 0;
  };
  struct Message {
    int from = 0;
    int tag = 0;
    std::int64_t bytes = 0;
    Buffer buffer;
  };

  Buffer buffer_for(std::int64_t bytes);
  std::vector<Message>::iterator find(int from, int tag);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;  // oldest first
  std::vector<Buffer> free_;
  bool failed_ = false;
};

}  // namespace tessera::local
