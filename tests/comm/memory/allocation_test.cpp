// Local ranks allocate in the first step only. A program of its own, since it counts every operator new; not
// built under sanitizers, which have an allocator of their own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tessera/comm/local/local_world.h"

namespace {
std::atomic<std::int64_t> g_num_allocations{0};
}

// The array and nothrow forms come here too. Not inlined: g++ then takes the malloc of the one and the free
// of the other for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t num_bytes) {
  ++g_num_allocations;
  if (void* memory = std::malloc(num_bytes)) return memory;
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

constexpr std::int64_t kCount = 50000;

// Every call, short and long, and more messages under way than one.
void step(Communicator& world, Communicator& group, std::vector<float>& data, std::vector<float>& whole) {
  for (const std::int64_t count : {std::int64_t{10}, kCount}) {
    world.all_reduce(data.data(), count, DType::f32, Reduction::sum);
    group.all_gather(data.data(), whole.data(), {1, count}, DType::f32);
    world.reduce_scatter(whole.data(), data.data(), {2, count / 2}, DType::f32, Reduction::max);
    world.broadcast(data.data(), count * 4, 0);
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    for (int tag = 0; tag < 3; ++tag) world.send(data.data(), count * 4, next, tag);
    world.barrier();
    for (int tag = 2; tag >= 0; --tag) world.receive(data.data(), count * 4, previous, tag);
    world.barrier();
  }
}

TEST(LocalAllocations, HappenInTheFirstStepOnly) {
  run_local_ranks(4, [](Communicator& world) {
    const auto group = world.split(world.rank() % 2, 0);
    std::vector<float> data(kCount), whole(4 * kCount);
    step(world, *group, data, whole);
    const std::int64_t before = g_num_allocations;
    world.barrier();
    for (int i = 0; i < 10; ++i) step(world, *group, data, whole);
    TS_CHECK(g_num_allocations == before, "{} allocations after the first step", g_num_allocations - before);
    world.barrier();  // before anyone frees, and while all still count
  });
}

}  // namespace
}  // namespace tessera
