// BertShards: a folder of BERT's HDF5 shards as one endless sequence of samples.
//
// Made by the training set-up, read through a PrefetchLoader. In epoch e the shards follow each other in the
// order of Python's random.Random(e).shuffle of their sorted names, the rows of a shard in that of PyTorch's
// DistributedSampler: randperm with seed 0. So far this is the original, row for row. Unlike it, no row is
// dropped or repeated: the original drops each shard's last incomplete micro-batch, repeats rows to divide a
// shard by the ranks, and never trains on the last shard of an epoch. A sample's place then depends on its
// number alone, not on the layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/data/bert_shard.h"

namespace tessera {

struct BertShardOptions {
  std::int64_t vocab_size = 0;      // of the model: a larger id is refused
  std::int64_t num_data_ranks = 1;  // at least as many shards are wanted, as by the original
  std::int64_t seq_len = 0;         // what the shards must have; 0: whatever they have
};

// The shards of a folder, *_training_*.hdf5, by name. Throws Error when there is none.
std::vector<std::filesystem::path> find_bert_shards(const std::filesystem::path& folder);

class BertShards {
 public:
  // Looks into every shard: throws Error when one misses a dataset or differs in sequence length.
  BertShards(const std::filesystem::path& folder, const BertShardOptions& options);
  BertShards(const BertShards&) = delete;  // a thread may be reading for it
  BertShards& operator=(const BertShards&) = delete;

  std::int64_t seq_len() const { return seq_len_; }
  std::int64_t samples_per_epoch() const { return samples_per_epoch_; }

  struct Place {
    std::int64_t epoch = 0;
    std::size_t shard = 0;  // by name
    std::int64_t row = 0;
  };
  Place place_of(std::int64_t sample);

  // Row b of the batch (Batch::of_pairs) is sample first_sample + b. Called from one thread; the shard after
  // the present one is read meanwhile.
  void fill(std::int64_t first_sample, Batch& batch);

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::size_t> order;          // the shards
    std::vector<std::int64_t> first_sample;  // of each of them in this epoch, and the end
  };
  struct Turn {  // one shard at its place in one epoch
    std::int64_t epoch = -1;
    std::size_t index = 0;  // into Epoch::order

    bool operator==(const Turn&) const = default;
  };
  struct Spot {  // where a sample is
    Turn turn;
    std::int64_t offset = 0;  // in the order of the shard's rows
  };
  using Loaded = std::shared_ptr<const BertShard>;

  Epoch make_epoch(std::int64_t number) const;
  Spot spot_of(std::int64_t sample);
  void enter_turn(const Turn& turn);
  Loaded load(std::size_t shard) const;
  void copy_row(std::int64_t row, std::int64_t into, Batch& batch) const;

  std::vector<std::filesystem::path> files_;
  BertShardOptions options_;
  std::int64_t seq_len_ = 0;
  std::int64_t samples_per_epoch_ = 0;
  std::vector<std::int64_t> num_rows_;  // by shard

  Epoch epoch_;  // that of the last sample looked for
  Turn turn_;    // that of the shard in memory
  Loaded shard_;
  std::vector<std::int64_t> row_order_;  // of it
  Turn next_turn_;
  std::future<Loaded> next_;  // being read
};

}  // namespace tessera
