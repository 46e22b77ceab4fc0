#include "emulated_gpu/thread_block.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "emulated_gpu/access_watch.h"
#include "emulated_gpu/block_order.h"
#include "emulated_gpu/fiber.h"
#include "emulated_gpu/shared_barrier.h"

constinit thread_local uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};  // cuda_builtins.h

namespace emulated {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "emulated GPU: block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
  std::abort();
}

// In the order of their beginning, with the number of each one's group.
struct LateWork {
  int group;
  Moment begun;
  std::function<void()> work;
};
struct LateGroups {
  std::vector<LateWork> work;
  int ended = 0;
};

struct Thread {
  Fiber fiber;
  uint3 index{};
  int number = 0;
  unsigned shown = 0;  // how often it has shown something to its warp
  std::array<LateGroups, 4> late;
};

struct Barrier {
  int arrived = 0;
  std::vector<Thread*> waiting;
  std::vector<Moment> came;  // of those that it orders
};

struct Warp {
  int running = 0;
  Barrier barrier;
  Shown shown[2];  // in turns: who shows the next value has read the one before the last
};

// Of one thread of this machine: its fibers, shared memory, and the block that runs.
class Multiprocessor : public Program {
 public:
  explicit Multiprocessor(int number) : watch_(number), shared_(shared_memory_of(number)) {}
  Multiprocessor(const Multiprocessor&) = delete;
  Multiprocessor& operator=(const Multiprocessor&) = delete;

  void run_block(const Grid& grid, std::uint64_t number, const std::function<void()>& kernel);
  void run() override {
    (*kernel_)();
    end_thread();
  }

  // One that orders lets everybody know what all have done before.
  void wait_at(Barrier& barrier, int num_threads, bool orders) {
    if (orders) barrier.came.push_back(watch_.moment());
    barrier.waiting.push_back(current_);
    if (++barrier.arrived < num_threads) return stop();
    barrier.waiting.pop_back();  // it goes on at once
    open(barrier, orders ? current_ : nullptr);
  }
  void arrive_at(Barrier& barrier, int num_threads) {
    barrier.came.push_back(watch_.release());
    if (++barrier.arrived >= num_threads) open(barrier, nullptr);
  }
  void wait_until(const std::function<bool()>& condition) {
    while (!condition()) {
      waiting_.push_back(current_);
      stop();
    }
  }
  void wake_waiting() { make_ready(waiting_); }
  void pause() {
    pausing_.push_back(current_);
    stop();
  }

  Barrier& barrier(int number) { return barriers_.at(static_cast<std::size_t>(number)); }
  Warp& warp() { return warps_[static_cast<std::size_t>(current_->number / 32)]; }
  Thread& current() { return *current_; }
  int running() const { return running_; }
  std::byte* shared() { return shared_; }
  void copy(std::function<void()> copy) {
    if (backwards_) return copy();
    copies_.push_back(std::move(copy));
  }
  void do_late(const LateWork& late) { watch_.run_late(late.begun, late.work); }
  AccessWatch& watch() { return watch_; }
  // Lets the other threads go on, as far as they can, where copies are early.
  void let_others_go_on() {
    if (!backwards_) return;
    ready_.push_back(current_);
    stop();
  }

 private:
  // `last` goes on without having stopped.
  void open(Barrier& barrier, Thread* last);
  void make_ready(std::vector<Thread*>& threads) {
    if (&threads != &pausing_) only_pausing_ = false;
    if (backwards_) std::reverse(threads.begin(), threads.end());
    ready_.insert(ready_.end(), threads.begin(), threads.end());
    threads.clear();
  }
  void stop() { current_->fiber.leave(); }
  void end_thread();
  bool find_ready();

  AccessWatch watch_;
  std::vector<std::unique_ptr<Thread>> threads_;  // as many as any block had
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_;
  std::deque<Thread*> ready_;
  std::vector<Thread*> waiting_, pausing_;
  std::deque<std::function<void()>> copies_;
  const std::function<void()>* kernel_ = nullptr;
  Thread* current_ = nullptr;
  std::size_t num_threads_ = 0;
  int running_ = 0;
  bool backwards_ = false;
  std::byte* shared_;
  bool only_pausing_ = false;  // no thread has gone on since, but to pause again
  std::chrono::steady_clock::time_point pausing_since_;
};

thread_local Multiprocessor* t_here = nullptr;

void Multiprocessor::open(Barrier& barrier, Thread* last) {
  barrier.arrived = 0;
  if (!barrier.came.empty()) {
    const std::size_t stopped = barrier.waiting.size() + (last != nullptr ? 1 : 0);
    const Known known = stopped == num_threads_ ? watch_.all_known(barrier.came) : joined(barrier.came);
    barrier.came.clear();
    for (const Thread* thread : barrier.waiting) watch_.go_on(thread->number, known);
    if (last != nullptr) {
      watch_.go_on(last->number, known);
      watch_.enter(last->number);
    }
  }
  make_ready(barrier.waiting);
}

// Barriers that count all do not wait for those that have ended.
void Multiprocessor::end_thread() {
  Thread& thread = *current_;
  for (const Late kind : {Late::product, Late::store}) {
    if (!thread.late[static_cast<std::size_t>(kind)].work.empty())
      give_up("it ends with products or stores that it did not wait for");
  }
  --running_;
  Warp& its_warp = warp();
  --its_warp.running;
  if (!its_warp.barrier.waiting.empty() && its_warp.barrier.arrived >= its_warp.running)
    open(its_warp.barrier, nullptr);
  if (!barriers_[0].waiting.empty() && barriers_[0].arrived >= running_) open(barriers_[0], nullptr);
}

// False: all have ended.
bool Multiprocessor::find_ready() {
  constexpr auto kLongest = std::chrono::seconds(120);
  while (ready_.empty()) {
    if (running_ == 0) {
      if (!copies_.empty()) give_up("it is the last, and a copy to shared memory has not been waited for");
      return false;
    }
    if (!copies_.empty()) {
      only_pausing_ = false;
      const std::function<void()> copy = std::move(copies_.front());
      copies_.pop_front();
      copy();
    } else if (!pausing_.empty()) {
      const auto now = std::chrono::steady_clock::now();
      if (std::exchange(only_pausing_, true) == false) pausing_since_ = now;
      if (now - pausing_since_ > kLongest) give_up("it waits for another block for ever");
      std::this_thread::yield();
      make_ready(pausing_);
      return true;
    } else {
      give_up("this thread and all others of the block wait for ever");
    }
  }
  return true;
}

void Multiprocessor::run_block(const Grid& grid, std::uint64_t number, const std::function<void()>& kernel) {
  t_here = this;
  backwards_ = number % 2 == 1;
  gridDim = {grid.blocks.x, grid.blocks.y, grid.blocks.z};
  blockDim = {grid.threads.x, grid.threads.y, grid.threads.z};
  const auto block = static_cast<unsigned>(number);
  blockIdx = {block % grid.blocks.x, block / grid.blocks.x % grid.blocks.y,
              block / grid.blocks.x / grid.blocks.y};
  std::memset(shared_, 0xff, kSharedBytes);
  watch_.begin_block(blockIdx, grid.threads, grid.shared_bytes);
  forget_barriers();

  const unsigned count = grid.threads.x * grid.threads.y * grid.threads.z;
  while (threads_.size() < count) threads_.push_back(std::make_unique<Thread>());
  warps_.assign((count + 31) / 32, {});
  barriers_.fill({});
  running_ = static_cast<int>(count);
  num_threads_ = count;
  kernel_ = &kernel;
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = *threads_[i];
    thread.number = static_cast<int>(i);
    thread.index = {i % grid.threads.x, i / grid.threads.x % grid.threads.y,
                    i / grid.threads.x / grid.threads.y};
    thread.shown = 0;
    for (LateGroups& late : thread.late) {
      late.work.clear();  // copies that nobody has waited for
      late.ended = 0;
    }
    thread.fiber.start(this);
    ++warps_[i / 32].running;
    waiting_.push_back(&thread);
  }
  make_ready(waiting_);
  while (find_ready()) {
    current_ = ready_.front();
    ready_.pop_front();
    threadIdx = current_->index;
    watch_.enter(current_->number);
    current_->fiber.enter();
    watch_.leave();
  }
}

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& kernel) {
  const std::uint64_t count = std::uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&](Multiprocessor& multiprocessor) {
    for (std::uint64_t number = next++; number < count; number = next++)
      multiprocessor.run_block(grid, number, kernel);
  };
  // One grid runs at a time; never destroyed, as whatever ends last may still wait for work.
  static auto& multiprocessors = *new std::array<Multiprocessor, kMultiprocessors>{
      Multiprocessor(0), Multiprocessor(1), Multiprocessor(2)};
  AccessWatch::begin_grid();
  forget_releases();
  std::vector<std::jthread> beside;
  for (std::uint64_t i = 1; i < std::min<std::uint64_t>(count, kMultiprocessors); ++i)
    beside.emplace_back([&, i] { work(multiprocessors[i]); });
  work(multiprocessors[0]);
}

void wait_at_barrier(int barrier, int num_threads) {
  t_here->wait_at(t_here->barrier(barrier), num_threads == 0 ? t_here->running() : num_threads, true);
}
void arrive_at_barrier(int barrier, int num_threads) {
  t_here->arrive_at(t_here->barrier(barrier), num_threads);
}

const Shown& show_to_warp(const void* value, std::size_t num_bytes) {
  Thread& thread = t_here->current();
  Warp& warp = t_here->warp();
  Shown& shown = warp.shown[thread.shown++ % 2];
  std::memcpy(shown.of_lane[thread.number % 32], value, num_bytes);
  t_here->wait_at(warp.barrier, warp.running, false);
  return shown;
}

void wait_for_warp() {
  t_here->wait_at(t_here->warp().barrier, t_here->warp().running, true);
}
void meet_warp() {
  t_here->wait_at(t_here->warp().barrier, t_here->warp().running, false);
}

void wait_until(const std::function<bool()>& condition) {
  t_here->wait_until(condition);
}
void wake_waiting() {
  t_here->wake_waiting();
}
void pause() {
  t_here->pause();
}
void copy_beside(std::function<void()> copy) {
  t_here->copy(std::move(copy));
}

void begin_late(Late kind, std::function<void()> work) {
  LateGroups& late = t_here->current().late[static_cast<std::size_t>(kind)];
  late.work.push_back({late.ended, t_here->watch().moment(), std::move(work)});
}
void end_late_group(Late kind) {
  ++t_here->current().late[static_cast<std::size_t>(kind)].ended;
  t_here->watch().release();  // what the thread does from here on may come before the work
}
void wait_for_late(Late kind, int pending) {
  if (kind == Late::product) t_here->let_others_go_on();
  LateGroups& late = t_here->current().late[static_cast<std::size_t>(kind)];
  std::size_t done = 0;
  for (; done < late.work.size() && late.work[done].group < late.ended - pending; ++done)
    t_here->do_late(late.work[done]);
  late.work.erase(late.work.begin(), late.work.begin() + static_cast<std::ptrdiff_t>(done));
}

std::byte* shared_memory() {
  return t_here->shared();
}
std::uint32_t shared_address(const void* at) {
  const std::ptrdiff_t distance = static_cast<const std::byte*>(at) - t_here->shared();
  if (distance < 0 || distance >= static_cast<std::ptrdiff_t>(kMostSharedBytes))
    give_up("no address of dynamic shared memory");
  return static_cast<std::uint32_t>(distance);
}

}  // namespace emulated
