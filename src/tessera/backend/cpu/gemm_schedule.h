// GemmSchedule: the blocks of a matrix product as one list of tasks, the order in which threads take them and
// what a task waits for. Made and followed by gemm.
//
// A barrier between packing and multiplying, and between blocks, would leave threads idle twice per block
// until the slowest is done. In the list the packing of a block is strewn among the tiles of the block
// before it, and a task waits for the earlier tasks it depends on and for no others; they are nearly always
// done. The first task of the list that is not done never waits, so there is no deadlock with any number of
// threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <thread>

namespace tessera::cpu {

class GemmSchedule {
 public:
  struct Task {
    std::int64_t block = 0;
    bool packs = false;
    std::int64_t index = 0;  // among the block's tasks that pack, or among its tiles
  };

  // Every block has `num_packs` tasks that pack and as many tiles as `blocks_done` has elements, which
  // counts, for each place in the grid of tiles, the blocks whose tile is done.
  GemmSchedule(std::int64_t num_blocks, std::int64_t num_packs, std::span<std::int32_t> blocks_done)
      : num_blocks_(num_blocks), num_packs_(num_packs), blocks_done_(blocks_done) {
    std::fill(blocks_done.begin(), blocks_done.end(), 0);
  }

  std::int64_t num_tasks() const { return num_packs_ + num_blocks_ * (num_packs_ + num_tiles()); }

  Task task(std::int64_t number) const {
    if (number < num_packs_) return {0, true, number};
    const std::int64_t per_block = num_packs_ + num_tiles();
    const std::int64_t block = (number - num_packs_) / per_block, at = (number - num_packs_) % per_block;
    // The first tiles of a block run while the last ones of the block before are being finished, whose
    // operands lie where the next block's will be packed.
    const std::int64_t lead = num_tiles() / 4;
    if (at < lead) return {block, false, at};
    const std::int64_t packs_before = (at - lead) * num_packs_ / (per_block - lead);
    const std::int64_t packs_behind = (at - lead + 1) * num_packs_ / (per_block - lead);
    if (packs_behind > packs_before) return {block + 1, true, packs_before};
    return {block, false, at - packs_before};
  }

  // Whether the task exists: behind the last block nothing is packed.
  bool contains(const Task& task) const { return task.block < num_blocks_; }

  // To be called before a task, and after it.
  void wait_for(const Task& task) {
    if (task.packs) {
      // The slot is free when the block before the last one is done with it.
      for (std::int32_t& done : blocks_done_) wait_until(std::atomic_ref(done), task.block - 1);
    } else {
      wait_until(packed_[task.block % 2], (task.block / 2 + 1) * num_packs_);
      wait_until(std::atomic_ref(blocks_done_[static_cast<std::size_t>(task.index)]), task.block);
    }
  }
  void finish(const Task& task) {
    if (task.packs) {
      packed_[task.block % 2].fetch_add(1, std::memory_order_release);
    } else {
      std::atomic_ref(blocks_done_[static_cast<std::size_t>(task.index)])
          .fetch_add(1, std::memory_order_release);
    }
  }

 private:
  std::int64_t num_tiles() const { return static_cast<std::int64_t>(blocks_done_.size()); }

  template <class Atomic>
  static void wait_until(const Atomic& count, std::int64_t least) {
    // A thread that waits longer than a task takes may stand in the way of the one it waits for.
    constexpr int kSpins = 20000;
    for (int spin = 0; count.load(std::memory_order_acquire) < least; ++spin) {
      if (spin >= kSpins) std::this_thread::yield();
    }
  }

  const std::int64_t num_blocks_, num_packs_;
  const std::span<std::int32_t> blocks_done_;
  // Of the blocks with even and with odd numbers. Packing of a block begins when all tiles of the block two
  // before it are done, hence when that is packed: either count grows block by block.
  std::array<std::atomic<std::int64_t>, 2> packed_ = {};
};

}  // namespace tessera::cpu
