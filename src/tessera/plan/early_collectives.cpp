#include "tessera/plan/early_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tessera/ops/collectives.h"
#include "tessera/plan/storage.h"

namespace tessera {
namespace {

// Where in the backward pass a value has its last content.
struct Final {
  std::int32_t chunk = 0, step = 0;
};

class EarlyCollectives {
 public:
  EarlyCollectives(const Graph& graph, std::vector<Chunk>& chunks) : graph_(graph), chunks_(chunks) {}

  void find() {
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(chunks_.size()); ++c) note_backward(c);
    const std::vector<Step>& update = chunks_[0].programs[static_cast<std::size_t>(Phase::update)];
    for (std::size_t s = 0; s < update.size(); ++s) {
      const Node& node = graph_.node(update[s].node);
      const std::optional<Final> begin = earliest(update[s], node);
      for (const InPlace& pair : in_place_pairs(node)) {
        if (pair.always) root_[node.outputs[pair.output]] = root(node.inputs[pair.input]);
      }
      if (begin) {
        chunks_[static_cast<std::size_t>(begin->chunk)].early.push_back(
            {begin->step, static_cast<std::int32_t>(s)});
        for (ValueId v : node.inputs) final_[root(v)] = *begin;
      } else {
        for (ValueId v : node.inputs) touched_by_update_.insert(root(v));
      }
    }
    for (Chunk& chunk : chunks_) std::ranges::stable_sort(chunk.early, {}, &EarlyCollective::after);
  }

 private:
  // The links of an accumulation are values of one place; it is known by the first.
  ValueId root(ValueId v) const {
    const auto found = root_.find(v);
    return found == root_.end() ? v : found->second;
  }

  void note_backward(std::int32_t chunk) {
    const std::vector<Step>& steps =
        chunks_[static_cast<std::size_t>(chunk)].programs[static_cast<std::size_t>(Phase::backward)];
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Node& node = graph_.node(steps[s].node);
      for (const InPlace& pair : in_place_pairs(node)) {
        if (pair.always) root_[node.outputs[pair.output]] = root(node.inputs[pair.input]);
      }
      for (ValueId v : node.inputs) {
        if (graph_.value(root(v)).role != Role::gradient) continue;
        const auto [at, first] = final_.try_emplace(root(v), Final{chunk, 0});
        if (at->second.chunk != chunk) at->second.chunk = kSeveralChunks;
        at->second.step = step_time(steps, s).last;
      }
    }
  }

  // After which step it can run, or nothing if it has to wait for the update.
  std::optional<Final> earliest(const Step& step, const Node& node) const {
    if (node.op != Op::all_reduce && node.op != Op::reduce_scatter_flat && node.op != Op::reduce_copies)
      return {};
    const Group group = node.attrs.as<CollectiveAttrs>().group;
    if (step.workspace_bytes > 0 || group == Group::pp || group == Group::ends) return {};
    std::optional<Final> last;
    for (ValueId v : node.inputs) {
      const auto found = final_.find(root(v));
      if (found == final_.end() || touched_by_update_.contains(root(v))) return {};
      const Final& at = found->second;
      if (at.chunk == kSeveralChunks || (last && last->chunk != at.chunk)) return {};
      last = Final{at.chunk, std::max(last ? last->step : 0, at.step)};
    }
    return last;
  }

  static constexpr std::int32_t kSeveralChunks = -1;

  const Graph& graph_;
  std::vector<Chunk>& chunks_;
  std::map<ValueId, ValueId> root_;
  std::map<ValueId, Final> final_;  // by root
  std::set<ValueId> touched_by_update_;
};

}  // namespace

void find_early_collectives(const Graph& graph, std::vector<Chunk>& chunks) {
  EarlyCollectives(graph, chunks).find();
}

}  // namespace tessera
