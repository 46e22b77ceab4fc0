// GradientBuckets: the collectives at the two ends of the update program: gradients summed over the ranks
// that share a weight, and with ZeRO-1 the updated weights gathered. Many tensors go in one call (a
// bucket), never from two stages. Used by partition().
//
// A gradient is summed over tp first (weights that lie whole there, and copies of shared heads), then over
// dp (with ZeRO-1 scattered to ranges, and these summed over the groups that each have a copy of the state),
// then between the stages that share a tied weight. Every element is added in the order of the ranks
// whatever the bucket, so bucket sizes do not change a bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/partition/layer_stages.h"
#include "tessera/partition/local_graph.h"

namespace tessera {

class GradientBuckets {
 public:
  GradientBuckets(const Graph& whole, const PartitionOptions& options, LocalGraph& local)
      : whole_(whole),
        options_(options),
        local_(local),
        num_layers_(whole.num_layers()),
        stages_(parameter_stages(whole, options.stage_of_layer)) {}

  // Before the first node of the update; does nothing when called again.
  void reduce_gradients();
  // After the last.
  void gather_weights();

 private:
  const std::vector<int>& stages(ValueId state) const {
    return stages_.at(parameter_of_state(whole_.value(state)));
  }
  // A link that lay otherwise than its accumulator would be summed wrongly, and add up wrongly from
  // micro-batch to micro-batch.
  void check_last_links() const;
  void sum_over_tp(const std::vector<ValueId>& accumulators);
  void sum_over_dp(const std::vector<ValueId>& accumulators);
  // One collective in place over `values`, bucket by bucket. `to` is how they lie afterwards on `axis`.
  void run_bucketed(Op op, Axis axis, Group group, int num_ranks, const Placement& to,
                    const std::vector<ValueId>& values, std::string_view what);

  const Graph& whole_;
  const PartitionOptions& options_;
  LocalGraph& local_;
  const std::int32_t num_layers_;
  std::map<std::string, std::vector<int>> stages_;
  bool reduced_ = false;
  int num_buckets_ = 0;
};

}  // namespace tessera
