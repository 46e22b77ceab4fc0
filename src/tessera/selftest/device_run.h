// DeviceRun: a case's nodes on one device: operands in its memory, filled from the host, run, read back.
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

// Whether a run in place differs from another: some output lies on an input only there.
bool differs_in_place(const Graph& graph);

class DeviceRun {
 public:
  // The graph has one node, or two that run as one where the device fuses them; its inputs are its first
  // values. With `in_place`, outputs that an op allows to lie on an input do, as a plan lays them: not on
  // what is an output of the graph, nor in the first of two, whose inputs are read until both are done.
  // Otherwise only those that must.
  DeviceRun(Device& device, const Graph& graph, const RankGroups* ranks, bool in_place);

  bool fused() const { return fused_; }
  void fill(std::span<const Bytes> inputs);
  void refill(std::span<const Bytes> inputs);  // what a run may overwrite; the others are there still
  // With `starts_sums`, where the ops allow it, what the accumulators hold must not matter.
  void run(bool starts_sums = false);
  std::vector<Bytes> outputs() const;                // of the graph
  bool gives(std::span<const Bytes> outputs) const;  // the same bits
  void end_run() { device_.mark(0); }                // the next does not run together with this one
  void wait() const;                                 // until everything that was run is done

  // What the run changed that it should not have; empty if nothing. Call after fill() and run().
  std::string stray_writes(std::span<const Bytes> inputs) const;

 private:
  struct Buffer {
    std::unique_ptr<DeviceMemory> memory;
    std::size_t size = 0;
  };
  struct BoundNode {
    std::vector<TensorView> inputs, outputs;
    Buffer workspace;
  };
  Buffer make_buffer(std::int64_t num_bytes);
  void add_value(ValueId value, ValueId lies_on);
  void bind(const Node& node, bool in_place);
  void poison(const Buffer& buffer);
  Bytes read(const std::byte* from, std::size_t size) const;
  bool holds(const std::byte* at, std::span<const std::byte> wanted) const;
  KernelCall call_of(std::size_t node, bool starts_sums) const;

  Device& device_;
  const Graph& graph_;
  const RankGroups* ranks_;
  bool fused_ = false;
  std::vector<Buffer> buffers_;    // by value; one that lies on another has an empty one
  std::vector<TensorView> views_;  // by value
  std::vector<bool> overwritten_;  // by value
  std::vector<BoundNode> nodes_;
};

}  // namespace tessera
