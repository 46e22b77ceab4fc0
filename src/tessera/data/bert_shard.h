// BertShard: one HDF5 file of BERT's pretraining data, in NVIDIA's layout, as arrays.
//
// Read by BertShards, made by make_bert_shard; `tessera data bert` writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/data/batch.h"

namespace tessera {

struct BertShard {
  std::int64_t num_rows = 0;         // N
  std::int64_t seq_len = 0;          // S
  std::int64_t max_predictions = 0;  // P

  std::vector<std::int32_t> input_ids;   // [N,S]: [CLS] a [SEP] b [SEP], some masked, then padding of 0
  std::vector<std::int8_t> input_mask;   // [N,S]: 1 where there is a token
  std::vector<std::int8_t> segment_ids;  // [N,S]: 1 in b and its [SEP]
  std::vector<std::int32_t> masked_lm_positions;  // [N,P]: ascending, then padding of 0
  std::vector<std::int32_t> masked_lm_ids;        // [N,P]: what stood there
  std::vector<std::int8_t> next_sentence_labels;  // [N]: 1 when b does not follow a in the text
};

struct BertShardSize {
  std::int64_t num_rows = 0, seq_len = 0, max_predictions = 0;
};

// Throws Error naming the file and the dataset that is missing, or has other rows than input_ids.
BertShardSize bert_shard_size(const std::filesystem::path& path);
// Also checks that positions are places of the sequence, types and labels 0 or 1, and padding at the end.
BertShard read_bert_shard(const std::filesystem::path& path);

void write_bert_shard(const std::filesystem::path& path, const BertShard& shard);
// On the disk, but not under its name: for shards that appear together. Holds no descriptor; see AtomicFile.
std::unique_ptr<AtomicFile> prepare_bert_shard(const std::filesystem::path& path, const BertShard& shard);

// Of one row the number of tokens before its padding.
std::int32_t count_keys(const BertShard& shard, std::int64_t row);

// The labels of one row: kNotScored but at the masked positions, which end with the first 0.
void copy_labels(const BertShard& shard, std::int64_t row, std::span<std::int32_t> out);

}  // namespace tessera
