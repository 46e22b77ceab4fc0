// Shrinking: a recipe for hundreds of devices made small enough to train on a laptop in seconds, with
// everything that can go wrong in the large one still in it: the same family, optimizer, schedule, precision,
// recompute, dropout, and the same kinds of parallelism on fewer ranks. Used by `tessera train` and `tessera
// plan` with
// --shrink RANKS.
//
// The rule:
//   ranks      tp, pp and dp get the prime factors of RANKS, largest first. An axis that the recipe uses has
//   its
//              first factor before any other has its second; then each goes to the axis that is furthest
//              behind, compared by logarithms. sequence and zero1 stay.
//   model      at least 8 heads, a multiple of tp, of 16 elements each; key-value heads and ffn in the
//   recipe's
//              proportion; 2 layers per stage; the tokenizer's vocabulary or, without one, 512 tokens.
//   batch      sequences of at most 64 tokens, at most 2 in a micro-batch, 4 or 2 pp micro-batches on each
//   rank. steps      60; warm-up, constant phase and end of decay in proportion. rate       lr and min_lr
//   times the recipe's width over the small one: Adam's steps suit a width's inverse. data       forgotten,
//   but for its kind: it comes from the command line. So do weights to start from. device     cpu. The run's
//   folder is the recipe's with "-shrunk" behind it.
#pragma once

#include <functional>

#include "tessera/train/run_config.h"

namespace tessera {

// `recipe` must spell out its model, and be of `ranks` ranks or more.
RunConfig shrunk(const RunConfig& recipe, std::int64_t ranks);

// load_run_config, shrunk to `ranks`; 0: as it is. The overrides have the last word over what shrinking
// chose. `say` gets a line for each key that shrinking changed.
RunConfig load_shrunk_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                             std::int64_t ranks, const std::function<void(const std::string&)>& say);

}  // namespace tessera
