#include "tessera/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <vector>

#include "checkpoint/temporary_folder.h"

namespace {
thread_local int g_allocations_left = -1;  // of this thread, before one fails; below 0: none does
}

// Not inlined: the compiler would pair the free of one with the other's name and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (g_allocations_left == 0) throw std::bad_alloc();
  if (g_allocations_left > 0) --g_allocations_left;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace tessera {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      std::atomic<bool> worker_in_range{true};
      pool.for_each_task(tasks, [&](std::int64_t task, int worker) {
        runs[static_cast<std::size_t>(task)].fetch_add(1);
        if (worker < 0 || worker >= threads) worker_in_range = false;
      });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
      EXPECT_TRUE(worker_in_range);
    }
  }
}

TEST(ThreadPool, LoopsFollowEachOtherWithoutLosingWrites) {
  ThreadPool pool(3);
  std::int64_t total = 0;
  for (int loop = 0; loop < 5000; ++loop) {
    std::int64_t parts[4] = {};
    pool.for_each_task(4, [&](std::int64_t task, int) { parts[task] = task + 1; });
    for (std::int64_t part : parts) total += part;
  }
  EXPECT_EQ(total, 5000 * 10);
}

// Those that have started end, and do not keep the failure from being told.
TEST(ThreadPool, TooLittleMemoryForAThreadIsThrown) {
  bool failed = true;
  int allocations = 0;
  for (; failed; ++allocations) {
    failed = false;
    g_allocations_left = allocations;
    try {
      ThreadPool pool(6);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    g_allocations_left = -1;
  }
  EXPECT_GT(allocations, 6);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space of their own
// Room for the stacks of a few threads: those that have started end, and the reason is told.
TEST(ThreadPool, ASystemWithoutMoreThreadsIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto used = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE));
  rlimit tight = before;
  tight.rlim_cur = used + (rlim_t{100} << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  expect_error([] { ThreadPool pool(4096); }, {"threads: could start ", " of 4096: Resource temporarily"});
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(ThreadPool(3).num_threads(), 3);
}
#endif

}  // namespace
}  // namespace tessera
