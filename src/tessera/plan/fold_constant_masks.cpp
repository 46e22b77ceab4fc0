#include "tessera/plan/fold_constant_masks.h"

#include <map>
#include <optional>
#include <set>

#include "tessera/ops/attention.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/matmul.h"
#include "tessera/ops/slice.h"
#include "tessera/ops/softmax.h"

namespace tessera {
namespace {

// One head as the matcher found it: the columns of qkv that it reads.
struct Head {
  ValueId qkv = kNoValue;
  std::int64_t q = 0, k = 0, v = 0, head_dim = 0;
  double scale = 1.0;
};

struct Match {
  ValueId qkv = kNoValue;
  AttentionAttrs attrs;
  std::set<NodeId> nodes;  // of the written-out form, without the one that joins the heads
};

// Walks from results to operands and remembers the nodes it has passed.
class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  std::optional<Match> match(const Node& node) {
    nodes_.clear();
    std::vector<Head> heads;
    if (node.op == Op::matmul) {  // a single head needs no concat
      const auto head = match_head(node);
      if (!head) return std::nullopt;
      heads.push_back(*head);
    } else if (node.op == Op::concat) {
      for (ValueId v : node.inputs) {
        const Node* const product = producer(v, Op::matmul);
        const auto head = product ? match_head(*product) : std::nullopt;
        if (!head) return std::nullopt;
        heads.push_back(*head);
      }
    } else {
      return std::nullopt;
    }
    return join(heads);
  }

 private:
  // The node that makes a value, if it is of this op.
  const Node* producer(ValueId v, Op op) {
    const NodeId id = graph_.value(v).producer;
    if (id == kNoNode || graph_.node(id).op != op) return nullptr;
    nodes_.insert(id);
    return &graph_.node(id);
  }

  // Steps over `scale` nodes, which it multiplies into `factor`.
  ValueId without_scale(ValueId v, double& factor) {
    while (const Node* const node = producer(v, Op::scale)) {
      factor *= node->attrs.as<ScaleAttrs>().factor;
      v = node->inputs[0];
    }
    return v;
  }

  // Zero and minus infinity stay what they are under a positive factor.
  bool is_causal_mask(ValueId v) {
    double factor = 1.0;
    const Node* const mask = producer(without_scale(v, factor), Op::causal_mask);
    return mask != nullptr && factor > 0;
  }

  // A piece of qkv: sets where it begins, and refuses another tensor or size than the pieces before.
  bool match_piece(ValueId v, Head& head, std::int64_t& begin) {
    const Node* const piece = producer(v, Op::slice);
    if (piece == nullptr) return false;
    const auto& attrs = piece->attrs.as<SliceAttrs>();
    if (head.qkv == kNoValue) {
      head.qkv = piece->inputs[0];
      head.head_dim = attrs.size;
    }
    begin = attrs.begin;
    return head.qkv == piece->inputs[0] && head.head_dim == attrs.size && attrs.dim == -1;
  }

  std::optional<Head> match_head(const Node& pv) {
    Head head;
    const auto plain = pv.attrs.as<MatmulAttrs>();
    const Node* const softmax = producer(pv.inputs[0], Op::softmax);
    if (plain.transpose_a || plain.transpose_b || softmax == nullptr) return std::nullopt;
    const Node* const masked = producer(softmax->inputs[0], Op::add);
    if (masked == nullptr || !is_causal_mask(masked->inputs[1])) return std::nullopt;
    const Node* const qk = producer(without_scale(masked->inputs[0], head.scale), Op::matmul);
    if (qk == nullptr) return std::nullopt;
    const auto product = qk->attrs.as<MatmulAttrs>();
    if (product.transpose_a || !product.transpose_b) return std::nullopt;
    const ValueId q = without_scale(qk->inputs[0], head.scale), k = without_scale(qk->inputs[1], head.scale);
    const bool found = head.scale > 0 && match_piece(q, head, head.q) && match_piece(k, head, head.k) &&
                       match_piece(pv.inputs[1], head, head.v);
    return found && graph_.type(head.qkv).shape.rank() == 3 ? std::optional(head) : std::nullopt;
  }

  // All heads of one qkv, each where ops/heads.h has it.
  std::optional<Match> join(const std::vector<Head>& heads) const {
    const Head& first = heads[0];
    const auto num_heads = static_cast<std::int64_t>(heads.size());
    const std::int64_t pieces = graph_.type(first.qkv).shape[-1] / first.head_dim;
    const HeadLayout layout{num_heads, (pieces - num_heads) / 2, first.head_dim};
    if (!layout.valid() || layout.qkv_columns() != graph_.type(first.qkv).shape[-1]) return std::nullopt;
    for (std::int64_t h = 0; h < num_heads; ++h) {
      const Head& head = heads[static_cast<std::size_t>(h)];
      const std::int64_t kv = h / (num_heads / layout.kv_heads);
      const bool in_place = head.q == h * layout.head_dim && head.k == (num_heads + kv) * layout.head_dim &&
                            head.v == (num_heads + layout.kv_heads + kv) * layout.head_dim;
      const bool alike =
          head.qkv == first.qkv && head.head_dim == first.head_dim && head.scale == first.scale;
      if (!in_place || !alike) return std::nullopt;
    }
    return Match{first.qkv, {layout, first.scale, /*causal=*/true}, nodes_};
  }

  const Graph& graph_;
  std::set<NodeId> nodes_;
};

class Folder {
 public:
  explicit Folder(const Graph& from)
      : from_(from), needed_(static_cast<std::size_t>(from.num_values()), false) {
    result_.new_ids.assign(needed_.size(), kNoValue);
  }

  FoldedMasks run() {
    Matcher matcher(from_);
    for (NodeId id = 0; id < from_.num_nodes(); ++id) {
      auto match = matcher.match(from_.node(id));
      if (!match) continue;
      replaced_.insert(match->nodes.begin(), match->nodes.end());
      for (NodeId inner : match->nodes) matches_.erase(inner);  // a lone head inside its concat
      matches_.emplace(id, std::move(*match));
    }
    find_needed();
    copy();
    return std::move(result_);
  }

 private:
  ValueId& new_id(ValueId v) { return result_.new_ids[static_cast<std::size_t>(v)]; }
  bool is_kept(NodeId id) const {
    if (!replaced_.contains(id) || matches_.contains(id)) return true;
    for (ValueId v : from_.node(id).outputs) {
      if (needed_[static_cast<std::size_t>(v)]) return true;
    }
    return false;
  }

  // Of a written-out attention, what something else reads too must stay.
  void find_needed() {
    for (const Output& output : from_.outputs()) needed_[static_cast<std::size_t>(output.value)] = true;
    for (NodeId id = from_.num_nodes() - 1; id >= 0; --id) {
      if (!is_kept(id)) continue;
      const auto match = matches_.find(id);
      if (match != matches_.end()) {
        needed_[static_cast<std::size_t>(match->second.qkv)] = true;
        continue;
      }
      for (ValueId v : from_.node(id).inputs) needed_[static_cast<std::size_t>(v)] = true;
    }
  }

  void copy() {
    Graph& to = result_.graph;
    for (ValueId v = 0; v < from_.num_values(); ++v) {
      const Value& value = from_.value(v);
      if (value.producer == kNoNode)
        new_id(v) = to.add_input(value.name, value.type, value.role, value.chunk);
    }
    for (NodeId id = 0; id < from_.num_nodes(); ++id) {
      if (is_kept(id)) copy(id);
    }
    for (const StateUpdate& u : from_.state_updates()) to.add_state_update(new_id(u.before), new_id(u.after));
    for (const Output& output : from_.outputs()) to.mark_output(output.name, new_id(output.value));
  }

  void copy(NodeId id) {
    const Node& node = from_.node(id);
    result_.graph.set_layer(node.layer);
    if (const auto match = matches_.find(id); match != matches_.end()) {
      new_id(node.outputs[0]) =
          attention(result_.graph, node.name, new_id(match->second.qkv), match->second.attrs);
      result_.names.push_back(node.name);
      return;
    }
    std::vector<ValueId> inputs;
    std::vector<ValueType> types;
    for (ValueId v : node.inputs) inputs.push_back(new_id(v));
    for (ValueId v : node.outputs) types.push_back(from_.type(v));
    const auto outputs =
        result_.graph.add_node(node.op, node.phase, node.name, node.attrs, std::move(inputs), types);
    for (std::size_t i = 0; i < outputs.size(); ++i) new_id(node.outputs[i]) = outputs[i];
  }

  const Graph& from_;
  std::map<NodeId, Match> matches_;  // by the node that joins the heads
  std::set<NodeId> replaced_;
  std::vector<bool> needed_;
  FoldedMasks result_;
};

}  // namespace

FoldedMasks fold_constant_masks(const Graph& graph) {
  return Folder(graph).run();
}

}  // namespace tessera
