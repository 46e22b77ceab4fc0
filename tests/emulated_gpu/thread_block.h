// How kernels run on an emulated GPU: the threads of a block are fibers that run until they wait for each
// other, and blocks run side by side on a few threads of this machine, as on so many multiprocessors.
//
// It is strict where a GPU may be lucky. Copies to a tile land when all threads of the block wait, in every
// other block at once; products and stores happen when they are waited for, there after all that other
// threads can do meanwhile. Those blocks' threads also go in the opposite order. Dynamic shared memory starts
// as NaNs. Threads that wait for what cannot come end the program, as do
// accesses that nothing orders (access_watch.h).
//
// Called by the emulated instructions in include/, inside of kernels; run_grid by streams (stream.h).
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "emulated_gpu/device_memory.h"

namespace emulated {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

inline constexpr unsigned kMostThreads = 1024;
inline constexpr std::size_t kMostSharedBytes = 227 * 1024;

// Returns when all blocks are done.
void run_grid(const Grid& grid, const std::function<void()>& kernel);

// Barriers of a block by their numbers, 0 to 15; 0 threads: all that have not ended.
void wait_at_barrier(int barrier, int num_threads);
void arrive_at_barrier(int barrier, int num_threads);

// What the lanes of a warp show each other; all that have not ended take part.
struct Shown {
  std::byte of_lane[32][16];
};
const Shown& show_to_warp(const void* value, std::size_t num_bytes);
void wait_for_warp();  // the lanes' accesses before it come before those after it
void meet_warp();      // and here they may not

// Until the condition holds; whoever may have brought it about says so by wake_waiting().
void wait_until(const std::function<bool()>& condition);
void wake_waiting();
// For a loop that waits for another block.
void pause();

// A copy that the block's threads wait for by a barrier.
void copy_beside(std::function<void()> copy);

// What a thread begins and waits for in groups, of which `pending` may be left.
enum class Late : std::uint8_t { small_copy, product, store_read, store };
void begin_late(Late kind, std::function<void()> work);
void end_late_group(Late kind);
void wait_for_late(Late kind, int pending);

// Dynamic shared memory, whose addresses are distances from its beginning.
std::byte* shared_memory();
std::uint32_t shared_address(const void* at);

}  // namespace emulated
