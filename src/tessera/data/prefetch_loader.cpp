#include "tessera/data/prefetch_loader.h"

#include <system_error>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

PrefetchLoader::PrefetchLoader(FillFunction fill, const PrefetchOptions& options)
    : fill_(std::move(fill)), batch_size_(options.batch_size), next_to_fill_(options.first_sample) {
  TS_CHECK(options.batch_size >= 1, "batch_size: found {}, expected at least 1", options.batch_size);
  TS_CHECK(options.seq_len >= 1, "seq_len: found {}, expected at least 1", options.seq_len);
  TS_CHECK(options.first_sample >= 0, "first_sample: found {}, expected 0 or more", options.first_sample);
  TS_CHECK(options.num_batches >= 2,
           "batches to prefetch: found {}, expected at least 2 (one in use, one ahead)", options.num_batches);
  const std::int64_t rows = options.batch_size, tokens = options.seq_len;
  ring_memory_.emplace(
      options.num_batches * Batch::num_bytes(rows, tokens, options.pairs),
      fmt::format(" for {} batches of {} sequences to read ahead", options.num_batches, rows));
  for (int i = 0; i < options.num_batches; ++i)
    ring_.push_back(options.pairs ? Batch::of_pairs(rows, tokens) : Batch(rows, tokens));
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    fail("could not start the thread that reads batches ahead: {}", error.code().message());
  }
}

PrefetchLoader::~PrefetchLoader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_one();
  worker_.join();
}

const Batch& PrefetchLoader::next() {
  std::unique_lock lock(mutex_);
  if (std::exchange(holding_, false)) {
    ++num_released_;
    work_ready_.notify_one();
  }
  batch_ready_.wait(lock, [&] { return num_filled_ > num_released_ || error_; });
  if (num_filled_ == num_released_) std::rethrow_exception(error_);
  holding_ = true;
  return ring_[static_cast<std::size_t>(num_released_) % ring_.size()];
}

void PrefetchLoader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_ready_.wait(lock, [&] {
      return stopping_ || (!error_ && num_filled_ - num_released_ < static_cast<std::int64_t>(ring_.size()));
    });
    if (stopping_) return;
    Batch& batch = ring_[static_cast<std::size_t>(num_filled_) % ring_.size()];
    const std::int64_t first_sample = next_to_fill_;

    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(first_sample, batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();

    if (error) {
      error_ = std::move(error);
    } else {
      ++num_filled_;
      next_to_fill_ += batch_size_;
    }
    batch_ready_.notify_one();
  }
}

}  // namespace tessera
