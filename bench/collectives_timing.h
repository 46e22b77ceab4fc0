// Times the collectives of any Communicator against the memcpy bound of the same ranks. Called on every rank;
// the first prints. For bench_collectives, over threads and over MPI.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::bench {

inline constexpr std::int64_t kLongBytes = 64 << 20;
inline constexpr std::int64_t kShortBytes = 1 << 10;

struct Timed {
  std::string name;
  std::function<void()> call;
  std::vector<double> seconds;  // of each repetition: from the first rank's beginning to the last one's end

  double best() const { return *std::ranges::min_element(seconds); }
  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
    return sorted[sorted.size() / 2];
  }
};

// One clock for all threads and processes of a machine.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Payload: what one rank gives to an all_reduce or a reduce_scatter, and gets from an all_gather. The buffers
// are three payloads per rank.
class CollectiveTimings {
 public:
  CollectiveTimings(Communicator& comm, std::int64_t bytes)
      : comm_(comm), bytes_(bytes), data_(floats(), 0.0f), other_(floats(), 0.0f), part_(floats(), 0.0f) {
    const std::int64_t count = bytes / 4;
    const Strips strips{1, count / comm.size()};
    add("memcpy on every rank",
        [this] { std::memcpy(other_.data(), data_.data(), static_cast<std::size_t>(bytes_)); });
    add("all_reduce", [=, this] { comm_.all_reduce(data_.data(), count, DType::f32, Reduction::sum); });
    add("reduce_scatter",
        [=, this] { comm_.reduce_scatter(data_.data(), part_.data(), strips, DType::f32, Reduction::sum); });
    add("all_gather", [=, this] { comm_.all_gather(part_.data(), other_.data(), strips, DType::f32); });
  }

  void add(std::string name, std::function<void()> call) {
    timed_.push_back({std::move(name), std::move(call), {}});
  }

  float* data() { return data_.data(); }
  float* other() { return other_.data(); }
  float* part() { return part_.data(); }

  // Every call in turn, again and again, so that a noisy moment of the machine falls on all of them.
  void run(int repetitions) {
    for (int i = -1; i < repetitions; ++i) {  // the first warms up
      for (Timed& timed : timed_) {
        comm_.barrier();
        double times[] = {-now(), 0};  // largest: the earliest beginning, and the latest end
        timed.call();
        times[1] = now();
        comm_.all_reduce(times, 2, DType::f64, Reduction::max);
        if (i >= 0) timed.seconds.push_back(times[0] + times[1]);
      }
    }
  }

  void print() const {
    if (comm_.rank() != 0) return;
    fmt::print("\n{} ranks, {} KiB\n{:<28}{:>12}{:>12}{:>10}{:>14}\n", comm_.size(), bytes_ / 1024, "",
               "best us", "median us", "GB/s", "of the bound");
    const double bound = timed_.front().best();
    for (const Timed& timed : timed_) {
      fmt::print("{:<28}{:>12.1f}{:>12.1f}{:>10.2f}{:>13.2f}x\n", timed.name, 1e6 * timed.best(),
                 1e6 * timed.median(), comm_.size() * static_cast<double>(bytes_) / timed.best() / 1e9,
                 timed.best() / bound);
    }
  }

 private:
  std::size_t floats() const { return static_cast<std::size_t>(bytes_ / 4); }

  Communicator& comm_;
  std::int64_t bytes_;
  std::vector<float> data_, other_, part_;
  std::vector<Timed> timed_;
};

}  // namespace tessera::bench
