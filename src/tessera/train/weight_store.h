// WeightStore: a model's parameters, accumulators and optimizer state as whole fp32 tensors by name,
// however they lie on the ranks. Files and comparisons go through it; under bf16 the fp32 weights are what is
// read and written, of which a parameter is the rounding and low_halves_name() the rest.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/partition/placed.h"
#include "tessera/runtime/executor.h"

namespace tessera {

class WeightStore {
 public:
  // Everything whole in one executor.
  explicit WeightStore(const Executor& executor);
  // `state` of the whole mesh; this rank's part of it is in the executor.
  WeightStore(const Executor& executor, std::vector<PlacedTensor> state, const RankGroups* ranks);

  bool contains(const std::string& name) const { return find(name) != nullptr; }
  Shape shape(const std::string& name) const;  // of the whole tensor

  // Read and write one tensor of any role. Reading is collective: every rank calls it, and every rank gets
  // the whole; terms of sums are added up. Writing is local: every rank takes its part of `values`.
  std::vector<float> read(const std::string& name) const;
  void write(const std::string& name, std::span<const float> values) const;

  // A parameter joined with its low halves, if it has them.
  std::vector<float> read_parameter(const std::string& name) const;
  void write_parameter(const std::string& name, std::span<const float> values) const;
  // From a function of the whole tensor's elements, of which only this rank's are asked for, in small pieces:
  // no rank ever holds a whole weight. If they are `normals`, the device may make them itself.
  using FillPiece = std::function<void(std::int64_t first_element, std::span<float> values)>;
  void fill_parameter(const std::string& name, ThreadPool& pool, const FillPiece& fill,
                      const std::optional<NormalNumbers>& normals) const;

  const Executor& executor() const { return executor_; }
  const std::vector<PlacedTensor>& state() const { return state_; }
  bool on_one_rank() const { return ranks_ == nullptr; }

 private:
  const PlacedTensor* find(const std::string& name) const;
  const PlacedTensor& at(const std::string& name) const;
  template <class Element>
  std::vector<float> read_whole(const PlacedTensor& tensor, Element&& element) const;
  // Elements side by side that this rank holds.
  struct Run {
    std::int64_t whole;   // offset in the whole tensor
    std::int64_t shard;   // in this rank's shard of it
    std::int64_t stored;  // where they lie: in the shard, or in the range of it that is stored
    std::int64_t count;
    bool counts;  // whether this rank's copy is the one that counts
  };
  // f(run)
  template <class F>
  void for_each_run(const PlacedTensor& tensor, F&& f) const;

  const Executor& executor_;
  std::vector<PlacedTensor> state_;
  const RankGroups* ranks_ = nullptr;
};

}  // namespace tessera
