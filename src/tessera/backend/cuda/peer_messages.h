// PeerMessages: messages between ranks that are threads of this process, from GPU memory to GPU memory. Made
// by a link (rank_link.h); pipelines send activations and gradients by it.
//
// A send copies its data into a buffer of the sender's, in the order of its stream, and tells the receiver by
// a word through the host where that lies; the receiver copies it out in the order of its own stream and
// gives the buffer back. Buffers are of one receiver and one size, reserved before the first step, as many as
// the schedule can have on their way (pipeline/channel.h).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tessera/backend/cuda/cuda_stream.h"
#include "tessera/comm/device_communicator.h"

namespace tessera::cuda {

class PeerMessages final : public DeviceMessages {
 public:
  explicit PeerMessages(Communicator& group);

  void reserve(int to, std::int64_t bytes, int count) override;
  std::int64_t reserved_bytes() const override;
  void send(const void* data, std::int64_t bytes, int to, int tag, DeviceStream stream) override;
  void receive(void* data, std::int64_t bytes, int from, int tag, DeviceStream stream) override;

 private:
  // Memory of several buffers: the driver gives out whole MiB.
  struct Block {
    explicit Block(std::int64_t num_bytes);
    ~Block() { cudaFree(data); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  struct Buffer {
    Buffer(int to, std::byte* at, std::int64_t num_bytes) : receiver(to), data(at), bytes(num_bytes) {}

    int receiver = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    Event filled;
    std::optional<Event> emptied;  // the receiver's: an event is recorded on the GPU that it was made on
    bool in_use = false;
  };
  // One rank's buffers. Its own thread takes them, the receivers' threads give them back.
  class Pool {
   public:
    void reserve(int to, std::int64_t num_bytes, int count);
    std::int64_t bytes();
    Buffer& take(int to, std::int64_t num_bytes);
    void give_back(Buffer& buffer);

   private:
    void add(int to, std::int64_t num_bytes, std::int64_t count);

    std::mutex mutex_;
    std::list<Block> blocks_;
    std::list<Buffer> buffers_;
  };

  Pool& own_pool() const { return *pools_[static_cast<std::size_t>(host_.rank())]; }

  Communicator& host_;
  std::vector<std::shared_ptr<Pool>>
      pools_;  // by rank; shared, as a receiver may outlive a sender that failed
};

}  // namespace tessera::cuda
