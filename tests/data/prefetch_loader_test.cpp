#include "tessera/data/prefetch_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset_writer.h"
#include "tessera/data/token_batches.h"

namespace {
std::atomic<std::int64_t> num_allocations{0};
}

// Counts every allocation of the program, for DoesNotAllocate. Not inlined: the compiler would pair the
// free of one with the other's name and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
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

void fill_with_number(std::int64_t first_sample, Batch& batch) {
  batch.first_sample = first_sample;
  std::fill(batch.inputs.begin(), batch.inputs.end(), static_cast<std::int32_t>(first_sample));
}

void expect_batch(const Batch& batch, std::int64_t first_sample) {
  ASSERT_EQ(batch.first_sample, first_sample);
  for (const std::int32_t id : batch.inputs) ASSERT_EQ(id, first_sample);
}

TEST(PrefetchLoader, GivesTheBatchesOfDirectReading) {
  const ScratchFolder folder;
  IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
  std::vector<std::int32_t> tokens(5001);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  writer.add_document(tokens);
  writer.finish();
  const auto corpus = std::make_shared<IndexedDataset>(folder / "c");
  const TokenBatches batches(corpus, split_samples(*corpus, 8, 0).train,
                             {.seq_len = 8, .vocab_size = 5001, .shuffle_seed = 3});
  PrefetchLoader loader([&](std::int64_t sample, Batch& batch) { batches.fill(sample, batch); },
                        {.batch_size = 4, .seq_len = 8});
  Batch direct(4, 8);
  for (std::int64_t sample = 0; sample < 2000; sample += 4) {
    const Batch& batch = loader.next();
    batches.fill(sample, direct);
    ASSERT_EQ(batch.first_sample, sample);
    ASSERT_EQ(batch.inputs, direct.inputs);
    ASSERT_EQ(batch.targets, direct.targets);
  }
}

TEST(PrefetchLoader, AResumedLoaderContinuesWithTheSameBatches) {
  const PrefetchOptions options{.batch_size = 3, .seq_len = 4};
  PrefetchLoader first(fill_with_number, options);
  for (int i = 0; i < 7; ++i) first.next();
  PrefetchOptions resumed = options;
  resumed.first_sample = 21;
  PrefetchLoader second(fill_with_number, resumed);
  for (int i = 0; i < 20; ++i) {
    const Batch& batch = second.next();
    expect_batch(batch, first.next().first_sample);
    expect_batch(batch, 21 + 3 * i);
  }
}

TEST(PrefetchLoader, ARingOfAnySizeStartsAnywhere) {
  for (int num_batches : {2, 3, 8}) {
    for (int round = 0; round < 100; ++round) {
      const std::int64_t start = round * 37 % 1000;
      PrefetchLoader loader(
          fill_with_number,
          {.batch_size = 2, .seq_len = 64, .first_sample = start, .num_batches = num_batches});
      for (int i = 0; i < round % 20; ++i) expect_batch(loader.next(), start + 2 * i);
    }
  }
}

TEST(PrefetchLoader, ABatchInUseIsNotOverwritten) {
  PrefetchLoader loader(fill_with_number, {.batch_size = 1, .seq_len = 16, .num_batches = 2});
  for (int i = 0; i < 200; ++i) {
    const Batch& batch = loader.next();
    for (int look = 0; look < 20; ++look) {
      expect_batch(batch, i);
      std::this_thread::yield();
    }
  }
}

TEST(PrefetchLoader, AnErrorComesWithItsBatch) {
  PrefetchLoader loader(
      [](std::int64_t sample, Batch& batch) {
        TS_CHECK(sample != 6, "sample {} is bad", sample);
        fill_with_number(sample, batch);
      },
      {.batch_size = 2, .seq_len = 4});
  for (int i = 0; i < 3; ++i) expect_batch(loader.next(), 2 * i);
  for (int again = 0; again < 3; ++again) {
    expect_error([&] { loader.next(); }, "sample 6 is bad");
  }
}

TEST(PrefetchLoader, DoesNotAllocate) {
  PrefetchLoader loader(fill_with_number, {.batch_size = 4, .seq_len = 32});
  loader.next();
  const std::int64_t before = num_allocations.load();
  std::int64_t sum = 0;
  for (int i = 0; i < 1000; ++i) sum += loader.next().inputs[0];
  EXPECT_EQ(num_allocations.load(), before);
  EXPECT_GT(sum, 0);
}

TEST(PrefetchLoader, EndsInEveryState) {
  for (int taken = 0; taken < 6; ++taken) {
    for (int round = 0; round < 20; ++round) {
      PrefetchLoader loader(
          [](std::int64_t sample, Batch& batch) {
            TS_CHECK(sample < 4, "the end");
            fill_with_number(sample, batch);
          },
          {.batch_size = 1, .seq_len = 4, .num_batches = 3});
      for (int i = 0; i < std::min(taken, 4); ++i) loader.next();
      if (taken == 5) expect_error([&] { loader.next(); }, "the end");
    }
  }
}

TEST(PrefetchLoader, RefusesImpossibleOptions) {
  const auto make = [](const PrefetchOptions& options) { PrefetchLoader(fill_with_number, options); };
  expect_error([&] { make({.batch_size = 0, .seq_len = 4}); }, "batch_size", "0");
  expect_error([&] { make({.batch_size = 1, .seq_len = 0}); }, "seq_len", "0");
  expect_error([&] { make({.batch_size = 1, .seq_len = 1, .first_sample = -1}); }, "first_sample", "-1");
  expect_error([&] { make({.batch_size = 1, .seq_len = 1, .num_batches = 1}); }, "found 1", "at least 2");
}

TEST(PrefetchLoader, BatchesBeyondTheMachinesMemoryAreRefused) {
  const auto fill = [](std::int64_t, Batch&) {};
  expect_error([&] { PrefetchLoader(fill, {.batch_size = 1 << 24, .seq_len = 1 << 24}); },
               "GB for 4 batches of 16777216 sequences to read ahead", "this machine has");
  PrefetchLoader small(fill, {.batch_size = 2, .seq_len = 3, .pairs = true});  // its claim is another's again
  EXPECT_EQ(small.next().token_types.size(), 6u);
}

}  // namespace
}  // namespace tessera
