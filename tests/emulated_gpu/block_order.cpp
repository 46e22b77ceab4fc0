#include "emulated_gpu/block_order.h"

#include <atomic>
#include <map>
#include <mutex>

#include "emulated_gpu/access_watch.h"
#include "emulated_gpu/thread_block.h"

namespace emulated {
namespace {

// What is known to whoever loads the word; behind a lock together with the words.
struct Releases {
  std::mutex mutex;
  std::map<const unsigned*, Known> of_word;
};
Releases& releases() {
  static auto* const made = new Releases;
  return *made;
}

void note_atomic(const void* at) {
  if (t_watch != nullptr) t_watch->access_atomic(reinterpret_cast<std::uintptr_t>(at), sizeof(unsigned));
}

}  // namespace

void store_release(unsigned* at, unsigned value) {
  note_atomic(at);
  const std::lock_guard lock(releases().mutex);
  if (t_watch != nullptr) {
    const Moment released = t_watch->release();
    releases().of_word[at] = joined({&released, 1});
  }
  std::atomic_ref(*at).store(value, std::memory_order_release);
}

unsigned load_acquire(const unsigned* at) {
  pause();
  note_atomic(at);
  const std::lock_guard lock(releases().mutex);
  if (t_watch != nullptr) {
    const auto released = releases().of_word.find(at);
    if (released != releases().of_word.end()) t_watch->acquire(released->second);
  }
  return std::atomic_ref(*const_cast<unsigned*>(at)).load(std::memory_order_acquire);
}

int add_atomically(int* at, int value) {
  note_atomic(at);
  return std::atomic_ref(*at).fetch_add(value);
}

void forget_releases() {
  releases().of_word.clear();
}

}  // namespace emulated
