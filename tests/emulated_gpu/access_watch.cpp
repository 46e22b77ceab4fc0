#include "emulated_gpu/access_watch.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace emulated {
namespace {

// Of what there has been of either, the last ones are kept.
constexpr Label kLabelsKept = Label{1} << 25, kReadersKept = Label{1} << 22;
constexpr int kReadersBits = 28;
constexpr Label kReadersMask = (Label{1} << kReadersBits) - 1;
// Looked for among the last ones that have read a cell, so that whoever reads it again and again is not added
// each time.
constexpr int kRecentReaders = 64;

std::pair<std::uintptr_t, std::size_t> static_memory() {
  std::pair<std::uintptr_t, std::size_t> found;
  dl_iterate_phdr(  // the first is the program itself
      [](dl_phdr_info* info, std::size_t, void* to) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
          *static_cast<decltype(found)*>(to) = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                                info->dlpi_phdr[i].p_memsz};
        }
        return 1;
      },
      &found);
  return found;
}

}  // namespace

AccessWatch::AccessWatch(int multiprocessor)
    : number_(multiprocessor), next_(static_cast<Label>(multiprocessor) << kLabelBits | 1) {
  if (!kWatches) return;
  if (s_grid == nullptr) s_grid = new OfGrid;
  OfGrid& grid = *s_grid;
  grid.all[number_] = this;
  grid.threads[number_] = static_cast<std::uint16_t*>(reserve(kLabelsKept * sizeof(std::uint16_t)));
  grid.readers[number_] = static_cast<Readers*>(reserve(kReadersKept * sizeof(Readers)));
  static_bytes_ = static_memory().second;
  static_cells_ = static_cast<std::uint64_t*>(reserve((static_bytes_ / 2 + 1) * sizeof *static_cells_));
  static_byte_cells_ = static_cast<std::uint64_t*>(reserve(static_bytes_ * sizeof *static_byte_cells_));
}

// Before the counters of labels or readers overflow, everything is forgotten.
void AccessWatch::begin_grid() {
  if (!kWatches) return;
  OfGrid& grid = *s_grid;
  ++grid.number;
  grid.blocks.clear();
  const bool anew = std::ranges::any_of(grid.all, [](const AccessWatch* watch) {
    return (watch->next_ & kLabelMask) > kLabelMask / 2 || watch->next_readers_ > kReadersMask / 2;
  });
  if (anew) clear_all_cells();
  for (AccessWatch* watch : grid.all) {
    if (anew) {
      std::fill_n(watch->static_cells_, watch->static_bytes_ / 2 + 1, 0);
      std::fill_n(watch->static_byte_cells_, watch->static_bytes_, 0);
      watch->next_ = static_cast<Label>(watch->number_) << kLabelBits | 1;
      watch->next_readers_ = 1;
    }
    grid.floor[watch->number_] = watch->next_;
    grid.readers_floor[watch->number_] = watch->next_readers_;
  }
  for (AccessWatch* watch : grid.all) std::ranges::copy(grid.floor, watch->of_grids_before_.begin());
}

void AccessWatch::begin_block(uint3 block, dim3 threads, std::size_t shared_bytes) {
  if (!kWatches) return;
  OfGrid& grid = *s_grid;
  first_ = next_;
  {
    const std::lock_guard lock(grid.mutex);
    grid.blocks[first_] = block;
  }
  threads_of_block_ = threads;
  num_threads_ = static_cast<int>(threads.x * threads.y * threads.z);
  num_engines_ = 0;
  shared_bytes_ = shared_bytes;
  static const std::uintptr_t from_here = static_memory().first - reinterpret_cast<std::uintptr_t>(&t_watch);
  statics_ = reinterpret_cast<std::uintptr_t>(&t_watch) + from_here;
  start_ = std::make_shared<Knowledge>(Knowledge{.first = first_, .floor = first_});
  threads_.resize(static_cast<std::size_t>(num_threads_));
  for (int i = 0; i < num_threads_; ++i) go_on(i, start_);
}

void AccessWatch::enter(int thread) {
  if (!kWatches) return;
  const Thread& entered = threads_[static_cast<std::size_t>(thread)];
  current_ = thread;
  label_ = entered.label;
  if (entered.begun != nullptr) {
    act_for(*entered.begun);
  } else {
    actor_ = thread;
    known_of_actor_ = ~Label{0};
    set_known(*entered.known);
  }
  t_watch = this;
}
void AccessWatch::leave() {
  current_ = -1;
  t_watch = nullptr;
}
void AccessWatch::act_for(const Moment& begun) {
  actor_ = begun.thread;
  known_of_actor_ = begun.label;
  set_known(*begun.known);
}
void AccessWatch::set_known(const Knowledge& known) {
  known_ = &known;
  floor_ = known.floor;
}

Moment AccessWatch::moment() const {
  if (!kWatches) return {};
  const Thread& thread = threads_[static_cast<std::size_t>(current_)];
  return {thread.known, current_, thread.label};
}
Moment AccessWatch::release() {
  if (!kWatches) return {};
  Moment released = moment();
  go_on(current_, released.known);
  enter(current_);
  return released;
}
void AccessWatch::acquire(const Known& known) {
  if (!kWatches || known == nullptr) return;
  Known& own = threads_[static_cast<std::size_t>(current_)].known;
  if (own != last_known_ || known != last_acquired_) {  // else another lane of the warp was here before
    last_joined_ = with_block(own, known);
    last_known_ = own;
    last_acquired_ = known;
  }
  own = last_joined_;
  enter(current_);
}
void AccessWatch::go_on(int thread, const Known& known) {
  if (!kWatches) return;
  threads_[static_cast<std::size_t>(thread)] = {new_label(thread), known};
}
Known AccessWatch::all_known(std::span<const Moment> came) const {
  if (!kWatches || num_engines_ > 0) return joined(came);
  auto made = std::make_shared<Knowledge>(Knowledge{.first = first_, .floor = next_});
  const Knowledge* last = nullptr;
  for (const Thread& thread : threads_) {
    if (std::exchange(last, thread.known.get()) != thread.known.get()) add_blocks(*made, *thread.known);
  }
  return made;
}

void AccessWatch::run_late(const Moment& begun, const std::function<void()>& work) {
  if (!kWatches) return work();
  const int thread = current_;
  release();  // what it has done since is not known to the work
  threads_[static_cast<std::size_t>(thread)].begun = &begun;
  enter(thread);
  work();
  threads_[static_cast<std::size_t>(thread)].begun = nullptr;
  enter(thread);
}
Moment AccessWatch::run_beside(const Moment& begun, int engine, const std::function<void()>& work) {
  if (!kWatches) return work(), Moment{};
  const int thread = current_;
  label_ = new_label(engine);
  const Moment done{start_, engine, label_};
  act_for(begun);
  t_watch = this;
  work();
  thread < 0 ? leave() : enter(thread);
  return done;
}

Label AccessWatch::new_label(int thread) {
  s_grid->threads[number_][next_ % kLabelsKept] = static_cast<std::uint16_t>(thread);
  return next_++;
}
int AccessWatch::thread_of(Label label) {
  return s_grid->threads[top(label)][label % kLabelsKept];
}
const AccessWatch::Readers* AccessWatch::readers(Label read) {
  const OfGrid& grid = *s_grid;
  const auto number = static_cast<int>(read >> kReadersBits & 3);
  const Label at = read & kReadersMask;
  if (at < grid.readers_floor[number] || at + kReadersKept < grid.all[number]->next_readers_) return nullptr;
  return &grid.readers[number][at % kReadersKept];
}

bool AccessWatch::knows_other(Label label) const {
  if (label == 0) return true;
  if (top(label) == kOther) return (label & kLabelMask) != (s_grid->number & kLabelMask);
  if (static_cast<int>(top(label)) == number_ && label >= first_) return knows_in_block(label);
  return label < s_grid->floor[top(label)] || knows_in_other_block(label);
}
bool AccessWatch::knows_in_block(Label label) const {
  if (label + kLabelsKept <= next_) return true;  // too old to tell whose it was
  const int thread = thread_of(label);
  if (thread == actor_) return label <= known_of_actor_;
  const auto at = static_cast<std::size_t>(thread);
  return at < known_->of_thread.size() && label <= known_->of_thread[at];
}
bool AccessWatch::knows_in_other_block(Label label) const {
  auto block = known_->of_blocks.upper_bound(label);
  if (block == known_->of_blocks.begin()) return false;
  const Knowledge& known = *(--block)->second;
  if (top(known.first) != top(label)) return false;
  const auto thread = static_cast<std::size_t>(thread_of(label));
  return label < known.floor || (thread < known.of_thread.size() && label <= known.of_thread[thread]);
}
Label AccessWatch::unknown_reader(Label read) const {
  while (read != 0) {
    if (top(read) != kOther) return knows(read) ? 0 : read;
    const Readers* const several = readers(read);
    if (several == nullptr) return 0;
    const Label known = floor_ - first_;
    if (several->least - first_ < known && several->most - first_ < known) return 0;
    if (!knows(several->label)) return several->label;
    read = several->before;
  }
  return 0;
}

template <bool kWrites>
void AccessWatch::access_slowly(std::uintptr_t at, std::size_t bytes) {
  const Place place{at, bytes};
  if (is_emulated_memory(at)) {
    std::uint64_t* const cells = bytes == 1 ? byte_cell_of(at) : cell_of(at);
    place.is_shared() ? access_cells<kWrites, true>(cells, (bytes + 1) / 2, place)
                      : access_cells<kWrites, false>(cells, (bytes + 1) / 2, place);
  } else if (const std::uintptr_t offset = at - statics_; offset < static_bytes_) {
    std::uint64_t* const cells = bytes == 1 ? static_byte_cells_ + offset : static_cells_ + offset / 2;
    access_cells<kWrites, true>(cells, (bytes + 1) / 2, place);
  }
}
template void AccessWatch::access_slowly<false>(std::uintptr_t, std::size_t);
template void AccessWatch::access_slowly<true>(std::uintptr_t, std::size_t);

template <bool kWrites, bool kShared>
inline void AccessWatch::access_cells(std::uint64_t* cells, std::size_t count, const Place& place) {
  std::uint64_t from = 0, to = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::atomic_ref cell(cells[i]);
    const std::uint64_t found = cell.load(std::memory_order_relaxed);
    if (kWrites ? found == label_ : found >> 32 == label_) continue;
    if (found != from || i == 0) to = quick_next<kWrites, kShared>(from = found, place);
    if (to != found) cell.store(to, std::memory_order_relaxed);
  }
}

template <bool kWrites, bool kShared>
inline std::uint64_t AccessWatch::quick_next(std::uint64_t cell, const Place& place) {
  const auto written = static_cast<Label>(cell), read = static_cast<Label>(cell >> 32);
  const bool touched = kShared ? written >= first_ || read >= first_ : cell != 0;
  if (touched && (is_old<kShared>(written) || written == label_)) {
    const bool read_long_ago = is_old<kShared>(read) || read == label_;
    if (kWrites && read_long_ago) return label_;
    if (!kWrites && read_long_ago) return written | std::uint64_t{label_} << 32;
    const Found& then = found_[kShared][place_of(read)];
    if (!kWrites && then.from == key_of(read)) return written | std::uint64_t{then.then} << 32;
  }
  return next<kWrites, kShared>(cell, place);
}

// What earlier blocks have done to shared memory is no matter.
template <bool kShared>
Label AccessWatch::with_reader(Label read) {
  Found& found = found_[kShared][place_of(read)];
  found = {key_of(read), label_};
  const Readers* const others = top(read) == kOther ? readers(read) : nullptr;
  const Label last = others != nullptr ? others->label : top(read) == kOther ? 0 : read;
  if ((kShared && last < first_) || unknown_reader(read) == 0) return found.then;
  Label before = read;
  for (int i = 0; i < kRecentReaders && top(before) == kOther; ++i) {
    const Readers* const several = readers(before);
    if (several == nullptr) break;
    if (several->label == label_) return found.then = read;
    before = several->before;
  }
  if (before == label_) return found.then = read;
  const Label least = others != nullptr ? others->least : read,
              most = others != nullptr ? others->most : read;
  const Label at = next_readers_++;
  s_grid->readers[number_][at % kReadersKept] = {label_, read, std::min(least, label_),
                                                 std::max(most, label_)};
  return found.then = Label{kOther} << kLabelBits | static_cast<Label>(number_) << kReadersBits | at;
}

template <bool kWrites, bool kShared>
std::uint64_t AccessWatch::next(std::uint64_t cell, const Place& place) {
  auto written = static_cast<Label>(cell);
  const auto read = static_cast<Label>(cell >> 32);
  if (kShared && written < first_) written = 0;
  if (written == 0) check_memory(place);
  if (written != label_ && !knows(written))
    report_race(place, kWrites ? "writes" : "reads", written, "written");
  if constexpr (!kWrites)
    return written | std::uint64_t{read == 0 ? label_ : with_reader<kShared>(read)} << 32;
  const Readers* const several = top(read) == kOther ? readers(read) : nullptr;
  const Label last = several != nullptr ? several->label : top(read) == kOther ? 0 : read;
  if (last == label_ && several == nullptr) return label_;
  if (kShared && last < first_) return label_;
  if (const Label other = unknown_reader(read); other != 0) report_race(place, "writes", other, "read");
  return label_;
}
void AccessWatch::access_atomic(std::uintptr_t at, std::size_t bytes) {
  const Place place{at, bytes};
  if (place.is_shared()) return;  // no kernel does so
  for (std::size_t i = 0; i < bytes / 2; ++i) {
    const std::atomic_ref cell(cell_of(at)[i]);
    const std::uint64_t found = cell.load(std::memory_order_relaxed);
    const auto written = static_cast<Label>(found), mark = Label{kOther} << kLabelBits | s_grid->number;
    if (found == mark) continue;
    if (found == 0) check_memory(place);
    if (written != mark && !knows(written)) report_race(place, "changes", written, "written");
    if (const Label other = unknown_reader(static_cast<Label>(found >> 32)); other != 0)
      report_race(place, "changes", other, "read");
    cell.store(mark, std::memory_order_relaxed);
  }
}

void AccessWatch::expect_written(std::uintptr_t at, std::size_t bytes) {
  const Place place{at, bytes};
  for (std::size_t i = 0; i < bytes / 2; ++i) {
    const auto written = static_cast<Label>(cell_of(at)[i]);
    if (written < first_) report("uses " + name_of(place) + ", which nobody has made a barrier");
    if (!knows(written)) report_race(place, "uses", written, "written");
  }
}

void AccessWatch::check_memory(const Place& place) const {
  const std::uintptr_t offset = place.at - kMemoryBegin;
  if (offset >= kMemorySpan) return;  // static: the compiler's bounds are watched
  if (offset < kAllSharedSpan) {
    const std::uintptr_t own = offset - static_cast<std::uintptr_t>(number_) * kSharedSpan;
    if (own + place.bytes > shared_bytes_)
      report("goes beyond the " + std::to_string(shared_bytes_) +
             " bytes of shared memory of its block, to +" + std::to_string(own));
  } else if (!is_taken(place.at, place.bytes)) {
    report("goes beyond what was allocated, to " + name_of(place));
  }
}

}  // namespace emulated
