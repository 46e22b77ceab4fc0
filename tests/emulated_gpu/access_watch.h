// What finds data races of kernels on an emulated GPU, and accesses to what is no memory. Their sources are
// compiled with -fsanitize=thread, whose calls at every access watched_accesses.cpp answers: no runtime of
// that sanitizer is linked.
//
// Every two bytes of shared and global memory have a cell with the label (knowledge.h) of the last write and
// of the reads since. An access whose thread does not know of the last write, or a write whose thread does
// not know of a read, ends the program: on a GPU they may come in any order, whatever order they had here.
//
// One AccessWatch per multiprocessor; thread_block.h tells it which thread goes on and who waits for whom.
#pragma once

#include <vector_types.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulated_gpu/device_memory.h"
#include "emulated_gpu/knowledge.h"

namespace emulated {

class AccessWatch {
 public:
  explicit AccessWatch(int multiprocessor);

  // Everything before it is known to all.
  static void begin_grid();
  // By the thread of this machine that runs it, which leaves the last of its threads before it ends.
  void begin_block(uint3 block, dim3 threads, std::size_t shared_bytes);

  // From here on, accesses are this thread's, or nobody's.
  void enter(int thread);
  void leave();

  // Of the current thread: now, or also with an end, after which all that it does is new.
  Moment moment() const;
  Moment release();
  void acquire(const Known& known);
  // A thread that goes on after it has waited for all these, itself among them.
  void go_on(int thread, const Known& known);
  // What all know when all the block's threads wait for each other: every label so far, but those of copies.
  Known all_known(std::span<const Moment> came) const;

  // Work that somebody began at `begun` and that may have been done at any time since: by the current thread,
  // or by the copy engine, which has a number like a thread for each barrier that it signals.
  void run_late(const Moment& begun, const std::function<void()>& work);
  Moment run_beside(const Moment& begun, int engine, const std::function<void()>& work);
  int new_engine() { return num_threads_ + num_engines_++; }

  // Of 2, 4, 8 or 16 bytes. Mostly the thread has done the same since anybody else did anything there, so
  // this comes first and calls nothing.
  template <bool kWrites, std::size_t kBytes>
  void access(std::uintptr_t at) {
    const Cells there = cells_at(at);
    if (there.cells == nullptr || has_done<kWrites, kBytes / 2>(there)) return;
    access_slowly<kWrites>(at, kBytes);
  }
  template <bool kWrites>
  void access_slowly(std::uintptr_t at, std::size_t bytes);
  // Accesses that other threads' may meet, as long as they are atomic, too.
  void access_atomic(std::uintptr_t at, std::size_t bytes);
  // That what is there was written before, for what is read by whatever orders itself.
  void expect_written(std::uintptr_t at, std::size_t bytes);

 private:
  struct Thread {
    Label label = 0;
    Known known;
    const Moment* begun = nullptr;  // of late work that goes on
  };
  // Several threads have read a cell: one more than `before`, which is a label or another of these.
  struct Readers {
    Label label, before, least, most;
  };
  struct Place {
    std::uintptr_t at;
    std::size_t bytes;
    bool is_shared() const { return at - kMemoryBegin >= kMemorySpan || at - kMemoryBegin < kAllSharedSpan; }
  };
  // Of the grid that runs.
  struct OfGrid {
    Label number = 0;
    AccessWatch* all[kMultiprocessors] = {};
    Label floor[kMultiprocessors] = {},
          readers_floor[kMultiprocessors] = {};     // older ones are of other grids
    std::uint16_t* threads[kMultiprocessors] = {};  // by label
    Readers* readers[kMultiprocessors] = {};
    std::mutex mutex;
    std::map<Label, uint3> blocks;  // by their first labels
  };
  static inline OfGrid* s_grid = nullptr;

  struct Cells {
    std::uint64_t* cells;  // null: there is nothing that others see
    bool shared;
  };
  Cells cells_at(std::uintptr_t at) const {
    if (is_emulated_memory(at)) return {cell_of(at), at - kMemoryBegin < kAllSharedSpan};
    if (const std::uintptr_t offset = at - statics_; offset < static_bytes_)
      return {static_cells_ + offset / 2, true};
    return {};
  }
  template <bool kWrites, std::size_t kCount>
  bool has_done(const Cells& there) const {
    const std::uint64_t found = there.cells[0];
    std::uint64_t others = 0;
    for (std::size_t i = 1; i < kCount; ++i) others |= there.cells[i] ^ found;
    if (others != 0) return false;
    if (kWrites || found >> 32 == label_) return found == label_ || !kWrites;
    const auto read = static_cast<Label>(found >> 32);
    const Found& then = found_[there.shared][place_of(read)];
    return then.from == key_of(read) && then.then == read;  // it is among them
  }

  // A cell is the label of the last write and, above it, those of the reads since. Blocks of other
  // multiprocessors change cells of global memory at the same time; one change may get lost.
  template <bool kWrites, bool kShared>
  void access_cells(std::uint64_t* cells, std::size_t count, const Place& place);
  // Most of the time it is clear that an access is in order.
  template <bool kWrites, bool kShared>
  std::uint64_t quick_next(std::uint64_t cell, const Place& place);
  // Known to the thread, as all of its block know it or it was before this block or grid.
  template <bool kShared>
  bool is_old(Label label) const {
    return kShared ? label < floor_
                   : label - first_ < floor_ - first_ || label < of_grids_before_[label >> kLabelBits];
  }
  template <bool kWrites, bool kShared>
  std::uint64_t next(std::uint64_t cell, const Place& place);
  void check_memory(const Place& place) const;
  template <bool kShared>
  Label with_reader(Label read);

  Label new_label(int thread);
  void act_for(const Moment& begun);
  void set_known(const Knowledge& known);
  bool knows(Label label) const { return label - first_ < floor_ - first_ || knows_other(label); }
  bool knows_other(Label label) const;
  bool knows_in_block(Label label) const;
  bool knows_in_other_block(Label label) const;
  // The last one that it does not know, or 0.
  Label unknown_reader(Label read) const;
  static const Readers* readers(Label read);
  static int thread_of(Label label);

  [[noreturn]] void report_race(const Place& place, const char* does, Label other, const char* has) const;
  [[noreturn]] void report(const std::string& what) const;
  std::string name_of(const Place& place) const;
  std::string thread_name(Label label) const;

  const int number_;
  Label next_;  // with the multiprocessor's number
  Label next_readers_ = 1;
  // Of the block.
  Label first_ = 0;
  int num_threads_ = 0, num_engines_ = 0;
  std::size_t shared_bytes_ = 0;
  dim3 threads_of_block_;
  std::vector<Thread> threads_;
  Known start_;
  Known last_known_, last_acquired_, last_joined_;
  // Of the thread.
  int current_ = -1, actor_ = -1;  // who works, and who began it
  Label label_ = 0, floor_ = 0, known_of_actor_ = 0;
  const Knowledge* known_ = nullptr;
  std::array<Label, 4> of_grids_before_{};  // labels below these, by their highest bits
  struct Found {
    std::uint64_t from = 0;  // the reader's label, and above it those that had read
    Label then = 0;
  };
  static std::size_t place_of(Label read) { return (read ^ read >> 8) % 256; }
  std::uint64_t key_of(Label read) const { return label_ | std::uint64_t{read} << 32; }
  std::array<Found, 256> found_[2];  // by with_reader, in global and in shared memory
  // Static shared memory: variables of the thread of this machine.
  std::uintptr_t statics_ = 0;
  std::size_t static_bytes_ = 0;
  std::uint64_t *static_cells_ = nullptr, *static_byte_cells_ = nullptr;
};

// Of the kernel's thread that goes on; null on a host's thread.
inline constinit thread_local AccessWatch* t_watch = nullptr;

// For emulated instructions that are not compiled with calls.
inline void note_read(const void* at, std::size_t bytes) {
  if (t_watch != nullptr) t_watch->access_slowly<false>(reinterpret_cast<std::uintptr_t>(at), bytes);
}
inline void note_write(const void* at, std::size_t bytes) {
  if (t_watch != nullptr) t_watch->access_slowly<true>(reinterpret_cast<std::uintptr_t>(at), bytes);
}

}  // namespace emulated
