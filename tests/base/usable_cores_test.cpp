#include "tessera/base/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace tessera {
namespace {

// A core that this process may run on.
int some_core() {
  return ::sched_getcpu();
}

void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0);
}

TEST(UsableCores, AreThoseThatAThreadIsBoundTo) {
  const int before = num_usable_cores();
  EXPECT_GE(before, 1);
  EXPECT_LE(before, static_cast<int>(std::thread::hardware_concurrency()));
  std::jthread([&] {
    bind_to(some_core());
    EXPECT_EQ(num_usable_cores(), 1);
    std::jthread([] { EXPECT_EQ(num_usable_cores(), 1) << "a thread inherits them"; });
  }).join();
  EXPECT_EQ(num_usable_cores(), before);
}

TEST(UsableCores, HaveAHashThatTellsWhichTheyAre) {
  const int core = some_core();
  std::uint64_t first = 0, second = 0;
  std::jthread([&] { bind_to(core), first = usable_cores_hash(); }).join();
  std::jthread([&] { bind_to(core), second = usable_cores_hash(); }).join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(first == usable_cores_hash(), num_usable_cores() == 1);
}

}  // namespace
}  // namespace tessera
