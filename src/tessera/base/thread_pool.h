// ThreadPool: a fixed set of worker threads that run the tasks of one parallel loop at a time.
//
// A loop is cut into tasks by its shape alone, never by the number of threads, and each task writes
// its own output: which thread runs which task cannot change a bit of the result.
// for_each_task returns when all tasks are done; it does not allocate.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

class ThreadPool {
 public:
  // The calling thread is one of them. Throws Error when the system has no more threads to give.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls f(task, worker) for every task in [0, num_tasks); worker < num_threads() names the thread,
  // for per-thread scratch. Called from one thread at a time; f must not throw.
  template <class F>
  void for_each_task(std::int64_t num_tasks, F&& f) {
    run(num_tasks, &call<F>, const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  using TaskFunction = void (*)(void* closure, std::int64_t task, int worker);

  template <class F>
  static void call(void* closure, std::int64_t task, int worker) {
    (*static_cast<std::remove_reference_t<F>*>(closure))(task, worker);
  }

  void run(std::int64_t num_tasks, TaskFunction function, void* closure);
  void work(int worker);
  void stop_workers();
  void drain(int worker);

  std::vector<std::thread> workers_;
  TaskFunction function_ = nullptr;
  void* closure_ = nullptr;
  std::int64_t num_tasks_ = 0;
  std::atomic<std::int64_t> next_task_{0};
  std::atomic<std::uint64_t> generation_{0};  // bumped once per loop; workers wait for a new value
  std::atomic<int> busy_workers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace tessera
