#include "tessera/ops/placement_rule.h"

#include <algorithm>

namespace tessera {
namespace {

// "b+:n" of a rule.
struct Operand {
  std::string_view dims;  // "...n"
  bool once = false, accumulator = false;
  std::string_view whole_without;  // letters
};

struct Signature {
  std::vector<Operand> inputs, outputs;
  const Operand& input(std::size_t i) const { return inputs[std::min(i, inputs.size() - 1)]; }
  const Operand& output(std::size_t i) const { return outputs[std::min(i, outputs.size() - 1)]; }
};

Operand parse_operand(std::string_view text) {
  const std::size_t colon = text.find(':');
  TS_ASSERT(colon != std::string_view::npos);
  Operand operand{.dims = text.substr(colon + 1)};
  const std::string_view name = text.substr(0, colon);
  operand.once = name.ends_with('+');
  operand.accumulator = name.ends_with('^');
  if (const std::size_t equal = name.find('='); equal != std::string_view::npos) {
    operand.whole_without = name.substr(equal + 1);
  }
  return operand;
}

Signature parse_signature(std::string_view text) {
  Signature signature;
  std::vector<Operand>* side = &signature.inputs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (word == "->") {
      side = &signature.outputs;
    } else if (!word.empty()) {
      side->push_back(parse_operand(word));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return signature;
}

// Cuts one letter (or one dim of "...") of every operand that has it.
class Cutter {
 public:
  Cutter(const PlacementRule& rule, const PlacementCall& call, const Signature& signature)
      : rule_(rule), call_(call), signature_(signature) {}

  // `from_right` counts the dims of "..." from the last one, for letter '.'.
  Strategy cut(char letter, int from_right) {
    letter_ = letter;
    from_right_ = from_right;
    shared_ = blocks_of_neighbours();
    Strategy strategy{.letter = letter};
    const std::size_t num_inputs = call_.inputs.size();
    bool any_partial = false;
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      const Operand& operand = signature_.output(i);
      const int dim = dim_of(operand, call_.outputs[i].shape);
      const bool whole = operand.whole_without.find(letter) != std::string_view::npos;
      strategy.outputs.push_back(dim >= 0 ? sharded(operand, call_.outputs[i].shape, dim, num_inputs + i)
                                          : (whole ? replicated() : partial_sum()));
      any_partial |= strategy.outputs.back().is_partial();
    }
    for (std::size_t i = 0; i < num_inputs; ++i) {
      const Operand& operand = signature_.input(i);
      const int dim = dim_of(operand, call_.inputs[i].shape);
      const bool term = operand.accumulator || (operand.once && any_partial);
      strategy.inputs.push_back(dim >= 0 ? sharded(operand, call_.inputs[i].shape, dim, i)
                                         : (term ? partial_sum() : replicated()));
    }
    strategy.dim = std::max(0, dim_of(signature_.input(0), call_.inputs[0].shape));
    inherit_copies(strategy);
    return strategy;
  }

 private:
  // Where the cut dim is in an operand; -1 if it lacks it.
  int dim_of(const Operand& operand, const Shape& shape) const {
    const bool leading = operand.dims.starts_with("...");
    const std::string_view letters = leading ? operand.dims.substr(3) : operand.dims;
    const int num_letters = static_cast<int>(letters.size());
    if (letter_ == '.') {
      const int dim = shape.rank() - num_letters - 1 - from_right_;
      return leading && dim >= 0 ? dim : -1;
    }
    const std::size_t at = letters.find(letter_);
    return at == std::string_view::npos ? -1 : shape.rank() - num_letters + static_cast<int>(at);
  }

  // Blocks of an operand that is already cut here, or as the readers of the result want it.
  std::vector<Block> blocks_of_neighbours() const {
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      const int dim = dim_of(signature_.input(i), call_.inputs[i].shape);
      const Placement* now = i < call_.current.size() ? call_.current[i] : nullptr;
      if (dim >= 0 && now != nullptr && now->is_shard() && now->dim == dim) return now->blocks;
    }
    if (call_.outputs.empty()) return {};
    const Shape& out = call_.outputs[0].shape;
    return dim_of(signature_.output(0), out) == out.rank() - 1 ? call_.wanted : std::vector<Block>{};
  }

  Placement sharded(const Operand& operand, const Shape& shape, int dim, std::size_t index) const {
    std::vector<Block> blocks = rule_.blocks ? rule_.blocks(call_, letter_, index) : std::vector<Block>{};
    if (blocks.empty() && !rule_.one_stretch) blocks = shared_;
    std::int64_t total = 0;
    for (const Block& block : blocks) total += block.size;
    // A neighbour that is packed differently has nothing to say about this dim.
    if (blocks.empty() || total != shape[dim]) blocks = even_cut(shape[dim], call_.num_ranks);
    Placement placement = shard(dim, std::move(blocks));
    if (operand.accumulator && has_copies(placement, call_.num_ranks)) placement.copies_agree = false;
    return placement;
  }

  // Whether copies agree is the operand's own affair: gradients of shared heads flow on as terms of a sum.
  void inherit_copies(Strategy& strategy) const {
    for (std::size_t i = 0; i < strategy.inputs.size() && i < call_.current.size(); ++i) {
      const Placement* now = call_.current[i];
      if (signature_.input(i).accumulator || now == nullptr || !strategy.inputs[i].is_shard()) continue;
      if (now->is_shard() && now->dim == strategy.inputs[i].dim)
        strategy.inputs[i].copies_agree = now->copies_agree;
    }
    for (std::size_t i = 0; i < strategy.outputs.size(); ++i) {
      Placement& out = strategy.outputs[i];
      if (signature_.output(i).accumulator || !out.is_shard() || !has_copies(out, call_.num_ranks)) continue;
      if (strategy.inputs[0].is_shard()) out.copies_agree = strategy.inputs[0].copies_agree;
    }
  }

  const PlacementRule& rule_;
  const PlacementCall& call_;
  const Signature& signature_;
  char letter_ = 0;
  int from_right_ = 0;
  std::vector<Block> shared_;
};

Strategy everywhere(const PlacementCall& call, const Placement& placement) {
  Strategy strategy;
  strategy.inputs.assign(call.inputs.size(), placement);
  strategy.outputs.assign(call.outputs.size(), placement);
  return strategy;
}

int num_leading(const Operand& operand, const Shape& shape) {
  return operand.dims.starts_with("...") ? shape.rank() - static_cast<int>(operand.dims.size() - 3) : 0;
}

// Every "..." operand as its rank's range of elements; what sums over them is partial.
Strategy flat_strategy(const PlacementCall& call, const Signature& signature) {
  Strategy strategy{.letter = 'F'};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    strategy.inputs.push_back(signature.input(i).dims == "..." ? flat_shard() : replicated());
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    strategy.outputs.push_back(signature.output(i).dims == "..." ? flat_shard() : partial_sum());
  }
  return strategy;
}

// Copies of a piece that agree would each add the same term to a sum. One operand may hold terms of its own
// instead (a gradient times the weight it flows back through); an op that counts pieces itself says so.
bool counts_copies_twice(const PlacementRule& rule, const PlacementCall& call, const Strategy& strategy) {
  if (rule.counts_copies_once) return false;
  bool copies = false, terms = false, mixed = false;
  for (const Placement& input : strategy.inputs) {
    if (!input.is_shard() || !has_copies(input, call.num_ranks)) continue;
    mixed |= copies && terms == input.copies_agree;
    copies = true;
    terms |= !input.copies_agree;
  }
  const bool summed = std::any_of(strategy.outputs.begin(), strategy.outputs.end(),
                                  [](const Placement& output) { return output.is_partial(); });
  return copies && ((summed && !terms) || (rule.sums && mixed));
}

}  // namespace

std::vector<Strategy> placement_strategies(const PlacementRule& rule, const PlacementCall& call) {
  const std::string text = rule.signature ? rule.signature(call) : std::string(rule.operands);
  const Signature signature = parse_signature(text);
  std::vector<Strategy> strategies;
  strategies.push_back(everywhere(call, replicated()));
  if (rule.flat && call.axis == Axis::dp) {
    // A range of what every rank has costs nothing and divides the work: for a sum it comes first. What comes
    // out in ranges would have to be gathered.
    Strategy flat = flat_strategy(call, signature);
    const bool sums = std::none_of(flat.outputs.begin(), flat.outputs.end(),
                                   [](const Placement& output) { return output.is_flat(); });
    strategies.insert(sums ? strategies.begin() : strategies.end(), std::move(flat));
  }
  if (rule.sums) strategies.push_back(everywhere(call, partial_sum()));
  if (call.inputs.empty()) {
    // What has no inputs and may be a term of a sum begins the gradient of a weight that is not a parameter:
    // where the batch is cut, that is a sum.
    if (rule.sums && call.axis == Axis::dp) std::ranges::reverse(strategies);
    return strategies;
  }
  Cutter cutter(rule, call, signature);
  const auto add = [&](Strategy strategy) {
    if (!counts_copies_twice(rule, call, strategy)) strategies.push_back(std::move(strategy));
  };
  for (char letter : rule.cuts) {
    if (call.axis != Axis::tp && rule.tp_cuts.find(letter) != std::string_view::npos) continue;
    if (letter != '.') {
      add(cutter.cut(letter, 0));
      continue;
    }
    int most = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      most = std::max(most, num_leading(signature.input(i), call.inputs[i].shape));
    }
    for (int d = most - 1; d >= 0; --d) add(cutter.cut('.', d));
  }
  return strategies;
}

std::vector<Block> wanted_blocks(const PlacementRule& rule, const PlacementCall& call) {
  if (rule.blocks) {
    for (char letter : rule.cuts) {
      std::vector<Block> blocks = rule.blocks(call, letter, 0);
      if (!blocks.empty()) return blocks;
    }
  }
  if (rule.operands.empty() || call.inputs.empty() || call.outputs.empty()) return {};
  // Element by element: the input is packed as the output is.
  const Signature signature = parse_signature(rule.operands);
  const bool elementwise = signature.input(0).dims == "..." && signature.output(0).dims == "...";
  return elementwise && call.inputs[0].shape == call.outputs[0].shape ? call.wanted : std::vector<Block>{};
}

}  // namespace tessera
