#include "tessera/base/thread_pool.h"

#include <system_error>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Loops follow each other within microseconds inside a step, so a waiting thread spins for a while
// (about 50 us) before it sleeps.
constexpr int kSpins = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  TS_CHECK(num_threads >= 1, "threads: found {}, expected at least 1", num_threads);
  // No destructor stops the workers of an object that has not come about.
  try {
    for (int w = 1; w < num_threads; ++w) workers_.emplace_back([this, w] { work(w); });
  } catch (const std::system_error& error) {
    const int started = this->num_threads();
    stop_workers();
    fail("threads: could start {} of {}: {}", started, num_threads, error.code().message());
  } catch (...) {  // no memory for another
    stop_workers();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_workers();
}

void ThreadPool::stop_workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t num_tasks, TaskFunction function, void* closure) {
  if (num_tasks <= 0) return;
  if (num_tasks == 1 || workers_.empty()) {
    for (std::int64_t task = 0; task < num_tasks; ++task) function(closure, task, 0);
    return;
  }
  function_ = function;
  closure_ = closure;
  num_tasks_ = num_tasks;
  next_task_.store(0);
  busy_workers_.store(static_cast<int>(workers_.size()));
  {
    std::lock_guard lock(mutex_);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  drain(0);
  while (busy_workers_.load(std::memory_order_acquire) != 0) pause_briefly();
}

void ThreadPool::work(int worker) {
  std::uint64_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) {
      pause_briefly();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load() != seen; });
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    drain(worker);
    busy_workers_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void ThreadPool::drain(int worker) {
  while (true) {
    const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= num_tasks_) return;
    function_(closure_, task, worker);
  }
}

}  // namespace tessera
