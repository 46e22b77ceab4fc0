#include "tessera/plan/arena.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tessera/base/alignment.h"

namespace tessera {

std::int64_t pack(std::span<Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  std::int64_t total = 0;
  for (std::size_t at : order) {
    Lifetime& life = lifetimes[at];
    std::int64_t offset = 0;
    for (const Lifetime* other : placed) {
      if (other->last < life.first || life.last < other->first) continue;
      if (other->offset >= offset + life.bytes) break;  // the gap before it is large enough
      offset = std::max(offset, align_up(other->offset + other->bytes));
    }
    life.offset = offset;
    total = std::max(total, align_up(offset + life.bytes));
    const auto where =
        std::upper_bound(placed.begin(), placed.end(), &life,
                         [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; });
    placed.insert(where, &life);
  }
  return total;
}

}  // namespace tessera
