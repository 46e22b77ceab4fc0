// DeviceRun: one node on one device: operands in its memory, filled from the host, run, read back.
//
// Every buffer has a guard behind it, and what is not in place starts as NaNs: an element that is not
// written, a write beyond an end and an input that changes are all found.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/runtime/device.h"

namespace tessera {

using Bytes = std::vector<std::byte>;

class DeviceRun {
 public:
  // With `in_place`, outputs that the op allows to lie on an input do; otherwise only those that must.
  DeviceRun(Device& device, const Graph& graph, const Node& node, const RankGroups* ranks, bool in_place);

  void fill(std::span<const Bytes> inputs);
  // With `starts_sums`, where the op allows it, what the accumulators hold must not matter.
  void run(bool starts_sums = false);
  std::vector<Bytes> outputs() const;
  void wait() const;  // until everything that was run is done

  // What the run changed that it should not have; empty if nothing. Call after fill() and run().
  std::string stray_writes(std::span<const Bytes> inputs) const;

 private:
  struct Buffer {
    std::unique_ptr<DeviceMemory> memory;
    std::size_t size = 0;
  };
  Buffer make_buffer(std::int64_t num_bytes);
  void poison(const Buffer& buffer);
  Bytes read(const std::byte* from, std::size_t size) const;

  Device& device_;
  const Node& node_;
  const RankGroups* ranks_;
  std::vector<Buffer> input_buffers_, output_buffers_;  // an output in place has an empty one
  Buffer workspace_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<bool> overwritten_;  // by input
};

}  // namespace tessera
