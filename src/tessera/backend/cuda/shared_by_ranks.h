// shared_by_ranks: one object per rank, seen by all ranks of a group that are threads of one process.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::cuda {

// Collective; by rank. All ranks own all of them.
template <class T>
std::vector<std::shared_ptr<T>> shared_by_ranks(Communicator& group, std::shared_ptr<T> own) {
  // Stays until all have copied it: for ever, where one has failed and nobody can tell.
  const auto* const shown = new std::shared_ptr<T>(std::move(own));
  std::vector<const std::shared_ptr<T>*> seen(static_cast<std::size_t>(group.size()));
  static_assert(sizeof(shown) == 2 * sizeof(std::int32_t));
  group.all_gather(&shown, seen.data(), {1, 2}, DType::i32);
  std::vector<std::shared_ptr<T>> all;
  for (const std::shared_ptr<T>* other : seen) all.push_back(*other);
  group.barrier();
  delete shown;
  return all;
}

}  // namespace tessera::cuda
