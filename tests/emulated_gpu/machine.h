// What the emulated CUDA runtime consists of: what its handles point to, and the machine that does the work
// of streams. Used by the files that define CUDA's functions (cuda_memory.cpp, cuda_streams.cpp).
#pragma once

#include <driver_types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "emulated_gpu/stream.h"

namespace emulated {

// What a stream does next, once it may.
struct Step {
  std::function<void()> work;
  std::function<bool()> may_begin;  // empty: at once
};

}  // namespace emulated

// What CUDA's handles point to.
struct CUgraph_st {
  std::vector<std::function<void()>> work;  // in the order in which it was captured
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};
struct CUevent_st {
  struct Moment {
    std::int64_t recorded = 0, reached = 0;  // how often
    std::chrono::steady_clock::time_point time;
    bool passed() const { return reached == recorded; }
  };
  int gpu = 0;
  bool timed = false;
  std::shared_ptr<Moment> moment =
      std::make_shared<Moment>();     // streams may still wait for it when this is gone
  CUgraph_st* captured_to = nullptr;  // the last record is part of a graph
};
struct CUstream_st {
  int gpu = 0;
  std::deque<emulated::Step> steps;
  CUgraph_st* captured_to = nullptr;
  bool destroyed = false;  // by its owner: it goes when it is done
};

namespace emulated {

struct Allocation {
  std::size_t bytes = 0;
  int gpu = -1;  // -1: of the host, pinned
};

int gpus_of_environment();

// Everything, behind one lock. Work is done with the lock held: one piece at a time.
struct Machine {
  std::recursive_mutex mutex;
  int num_gpus = gpus_of_environment();
  std::vector<CUstream_st*> streams;
  std::map<const std::byte*, Allocation> allocations;
  std::map<int, std::int64_t> used;
  bool gpus_read_each_other = true;
  std::map<int, bool> peers;  // 64 * gpu + peer
  std::mt19937 random{1};
  Counts counts;
  std::chrono::steady_clock::time_point went_on;
};

Machine& machine();

inline thread_local int t_gpu = 0;       // the current one
inline thread_local int t_captures = 0;  // of this thread, going on
inline thread_local cudaError_t t_last_error = cudaSuccess;
cudaError_t said(cudaError_t status);  // remembers an error

// Does one step of some stream, if there is one that can be done; with the lock held.
bool go_on();
// What is waited for may be work that another thread has not given yet. `condition` is asked with the lock
// held.
void go_on_until(const std::function<bool()>& condition);
// A destroyed stream goes with its last step.
void forget_if_done(CUstream_st& stream);

}  // namespace emulated
