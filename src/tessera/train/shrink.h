// Shrinking: a recipe for hundreds of devices made small enough to train on a laptop in seconds, with all
// that can go wrong in the large one still in it: the same family, optimizer, schedule, precision, recompute
// and dropout, and the same kinds of parallelism on fewer ranks. Used by the commands train and plan, with
// --shrink RANKS.
//
// The rule:
//
//   ranks   tp, pp and dp get the prime factors of RANKS, largest first. Every axis that the recipe uses has
//           one before any has its second; then each goes to the axis that is furthest behind, compared by
//           logarithms. sequence and zero1 stay.
//   model   8 heads, or the next multiple of tp, of 16 elements each, of which the recipe's part turns, in
//           whole pairs; key-value heads and ffn_size in the recipe's proportion; 2 layers per rank of pp,
//           in 2 chunks if the recipe has any; the tokenizer's vocabulary or, without one, 512 tokens.
//   batch   sequences of at most 64 tokens, at most 2 in a micro-batch; 8 per step, or as many as give each
//           rank 2 pp micro-batches; no more micro-batches than the recipe has.
//   steps   60; warm-up, constant phase and end of decay in proportion.
//   rate    lr times the recipe's width over the small one, for Adam's steps suit a width's inverse, but at
//           most 0.004; min_lr in proportion.
//   data    forgotten but for its kind: it comes from the command line. So do weights to start from.
//   device  cpu. The run's folder is the recipe's with "-shrunk" behind it.
#pragma once

#include <functional>
#include <optional>

#include "tessera/train/run_config.h"

namespace tessera {

// `recipe` must spell out its model, and be of `ranks` ranks or more. The vocabulary is left to a tokenizer.
RunConfig shrunk(const RunConfig& recipe, std::int64_t ranks);

// load_run_config, shrunk to `ranks`; without them as it is. The overrides have the last word over what
// shrinking chose. `say` gets a line for each key that shrinking changed.
RunConfig load_shrunk_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                             std::optional<std::int64_t> ranks,
                             const std::function<void(const std::string&)>& say);

}  // namespace tessera
