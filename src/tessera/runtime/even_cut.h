// Cuts that a communicator understands as they are: what the kernels of all_gather and reduce_scatter ask, on
// every backend. Other cuts are copied into its shape and back.
#pragma once

#include "tessera/comm/communicator.h"
#include "tessera/ops/collectives.h"

namespace tessera {

// Whether the parts lie at equal distances in the whole.
inline bool is_even_cut(const CollectiveAttrs& attrs) {
  const auto& blocks = attrs.placement.blocks;
  return blocks.size() == 1 && blocks[0].held == 1 && blocks[0].pieces == attrs.num_ranks &&
         blocks[0].size % attrs.num_ranks == 0;
}

// Of an even cut.
inline Strips strips_of(const CollectiveAttrs& attrs) {
  Strips strips{1, attrs.placement.blocks[0].piece_size()};
  for (int d = 0; d < attrs.placement.dim; ++d) strips.outer *= attrs.whole[d];
  for (int d = attrs.placement.dim + 1; d < attrs.whole.rank(); ++d) strips.inner *= attrs.whole[d];
  return strips;
}

}  // namespace tessera
