// Device: what runs a plan's nodes: memory, copies, kernels. Implemented by backend/cpu, backend/cuda
// and backend/null; used by the Executor, which knows no op by name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/tensor_view.h"
#include "tessera/graph/graph.h"
#include "tessera/runtime/rank_groups.h"

namespace tessera {

// One node, ready to run: where its operands lie. Sizes come from the views.
struct KernelCall {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attrs* attrs = nullptr;
  std::span<std::byte> workspace;     // as many bytes as Device::workspace_bytes asked for
  const RankGroups* ranks = nullptr;  // null: a run on one rank
  bool starts_sums = false;           // the accumulators hold nothing of use: store instead of adding to them
};

// Memory owned by a device; freed with the object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
};

// Work that a device has noted as one piece.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void run() = 0;
};

// Numbers first, first + 1, ... of a stream of normal numbers (base/philox.h), times `deviation`.
struct NormalNumbers {
  std::uint64_t seed = 0, stream = 0;
  std::int64_t first = 0;
  double deviation = 1;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Zeroed, aligned to 256 bytes or more.
  virtual std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) = 0;
  // Scratch that the kernel of `node` needs while it runs; planned into the arena.
  virtual std::int64_t workspace_bytes(const Graph& graph, const Node& node) const = 0;
  // Work runs as if in the order in which it is given: a device may do other work while a collective is on
  // its way. It may return before it is done; copies, too, wait their turn. What the call refers to stays
  // until then, or until memory that it works on is freed. Of a pair that `fuses`, the second reads what the
  // first writes.
  virtual void run(Op op, const KernelCall& call) = 0;
  virtual bool fuses(const Graph& graph, const Node& first, const Node& second) const;
  virtual void run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second);
  // Whether the kernel of an op heeds KernelCall::starts_sums. Where it does not, accumulators are cleared.
  virtual bool can_start_sums(Op) const { return false; }
  virtual void clear(const TensorView& tensor) = 0;
  // From host memory, which may be reused on return; to host memory, complete on return, or after the next
  // synchronize() if that can wait.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void download_later(std::span<std::byte> to, const std::byte* from) { download(to, from); }
  // Until everything given is done, but for collectives whose results nobody has asked for.
  virtual void synchronize() {}
  // How the ranks of `world`, each on a device of this kind, talk without the host; null: they do not. Asked
  // once per run, by all ranks.
  virtual std::unique_ptr<DeviceLink> link(Communicator& world);
  // To and from a rank of the pipeline's group, as a Communicator's: in their turn among the work. There is
  // room for what was reserved.
  virtual void reserve_messages(const RankGroups& /*ranks*/, int /*to*/, std::int64_t /*bytes*/,
                                int /*count*/) {}
  virtual void send(const TensorView& from, const RankGroups& ranks, int to, int tag);
  virtual void receive(const TensorView& to, const RankGroups& ranks, int from, int tag);
  // Initial weights where they will lie, for devices whose memory the host cannot write; false: not here.
  virtual bool fill_normal(const TensorView& /*to*/, const NormalNumbers& /*numbers*/) { return false; }
  // A stopwatch: notes the moment at which the work given so far is done, and the seconds between two
  // moments.
  virtual void mark(std::size_t moment);
  virtual double seconds_between(std::size_t from, std::size_t to);
  // The work that give_work() gives this device is noted and not run; what is returned runs all of it at
  // once, as often as asked. Work in which ranks meet cannot be noted. A device that captures nothing is
  // asked for every node every time.
  virtual bool captures() const { return false; }
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& /*give_work*/) {
    return nullptr;
  }
  virtual double peak_flops() = 0;  // measured once; 0 if unknown
  // Tries the ways to run each piece of work it has run so far, on the operands of its last run, which are
  // overwritten. Returns the best as text, for a device that is to decide alike; empty: nothing to choose.
  // What `known`, such a text or an empty one, has already is in it and not tried again.
  virtual std::string search_choices(const std::string& /*known*/,
                                     const std::function<void(const std::string&)>& /*say*/) {
    return {};
  }
  // What a user should know of how it has computed: what could be faster, and why it is not.
  virtual std::vector<std::string> remarks() const { return {}; }
  // Of memory of its own, if it has such: which it is among all machines', and what everybody uses of it.
  virtual std::uint64_t memory_id() const { return 0; }
  virtual std::int64_t used_bytes() const { return 0; }
  // Whether the host reads and writes this device's memory as its own. Where not: upload and download.
  virtual bool host_can_read() const { return true; }

 private:
  // The tensor where the host reaches it, or room for a message as long, kept for the next.
  std::span<std::byte> message_bytes(const TensorView& tensor);

  std::vector<std::chrono::steady_clock::time_point> moments_;
  std::vector<std::byte> message_;
};

}  // namespace tessera
