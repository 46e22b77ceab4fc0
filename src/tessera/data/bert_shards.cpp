#include "tessera/data/bert_shards.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/shuffle_order.h"

namespace tessera {
namespace {

constexpr std::uint64_t kRowSeed = 0;  // DistributedSampler's, which no epoch of the original changes

bool is_shard(const std::filesystem::path& path) {
  return path.extension() == ".hdf5" && path.stem().string().find("_training_") != std::string::npos;
}

}  // namespace

std::vector<std::filesystem::path> find_bert_shards(const std::filesystem::path& folder) {
  TS_CHECK(std::filesystem::is_directory(folder), "{}: no such folder, expected one with BERT's shards",
           folder.string());
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_shard(entry.path())) files.push_back(entry.path());
  }
  TS_CHECK(!files.empty(), "{}: found no shard, expected files named *_training_*.hdf5", folder.string());
  std::sort(files.begin(), files.end());
  return files;
}

BertShards::BertShards(const std::filesystem::path& folder, const BertShardOptions& options)
    : files_(find_bert_shards(folder)), options_(options) {
  TS_CHECK(options.vocab_size >= 1, "vocab_size: found {}, expected at least 1", options.vocab_size);
  TS_CHECK(std::ssize(files_) >= options.num_data_ranks,
           "{}: found {} shards, expected at least {}, one for each data-parallel rank", folder.string(),
           files_.size(), options.num_data_ranks);
  seq_len_ = options.seq_len;
  for (const std::filesystem::path& file : files_) {
    const BertShardSize size = bert_shard_size(file);
    if (seq_len_ == 0) seq_len_ = size.seq_len;
    TS_CHECK(size.seq_len == seq_len_, "{}: found sequences of {} tokens, expected {}{}", file.string(),
             size.seq_len, seq_len_, options.seq_len == 0 ? ", as in " + files_[0].string() : "");
    num_rows_.push_back(size.num_rows);
    samples_per_epoch_ += size.num_rows;
  }
}

BertShards::Epoch BertShards::make_epoch(std::int64_t number) const {
  Epoch epoch{.number = number, .first_sample = {0}};
  for (const std::int64_t shard : python_shuffle(static_cast<std::uint64_t>(number), std::ssize(files_))) {
    epoch.order.push_back(static_cast<std::size_t>(shard));
    epoch.first_sample.push_back(epoch.first_sample.back() + num_rows_[epoch.order.back()]);
  }
  return epoch;
}

BertShards::Spot BertShards::spot_of(std::int64_t sample) {
  TS_ASSERT(sample >= 0);
  if (epoch_.number != sample / samples_per_epoch_) epoch_ = make_epoch(sample / samples_per_epoch_);
  const std::int64_t in_epoch = sample % samples_per_epoch_;
  const auto after = std::upper_bound(epoch_.first_sample.begin(), epoch_.first_sample.end(), in_epoch);
  const auto index = static_cast<std::size_t>(after - epoch_.first_sample.begin()) - 1;
  return {{epoch_.number, index}, in_epoch - epoch_.first_sample[index]};
}

BertShards::Place BertShards::place_of(std::int64_t sample) {
  const Spot spot = spot_of(sample);
  const std::size_t shard = epoch_.order[spot.turn.index];
  const auto rows = torch_permutation(kRowSeed, num_rows_[shard]);
  return {spot.turn.epoch, shard, rows[static_cast<std::size_t>(spot.offset)]};
}

// Every id is checked here, once, and not again in each batch.
BertShards::Loaded BertShards::load(std::size_t shard) const {
  auto loaded = std::make_shared<BertShard>(read_bert_shard(files_[shard]));
  for (const auto* ids : {&loaded->input_ids, &loaded->masked_lm_ids}) {
    const auto stranger = std::find_if(ids->begin(), ids->end(),
                                       [&](std::int32_t id) { return id < 0 || id >= options_.vocab_size; });
    TS_CHECK(stranger == ids->end(), "{}: element {} of {} is id {}, but the model's vocabulary has {} ids",
             files_[shard].string(), stranger - ids->begin(),
             ids == &loaded->input_ids ? "input_ids" : "masked_lm_ids", *stranger, options_.vocab_size);
  }
  return loaded;
}

void BertShards::enter_turn(const Turn& turn) {
  if (turn_ == turn) return;
  const std::size_t shard = epoch_.order[turn.index];
  if (next_.valid() && next_turn_ == turn) {
    shard_ = next_.get();  // or its exception
  } else {
    if (next_.valid()) next_.wait();  // one file is read at a time
    shard_ = load(shard);
  }
  row_order_ = torch_permutation(kRowSeed, num_rows_[shard]);
  turn_ = turn;

  const bool last = turn.index + 1 == files_.size();
  next_turn_ = last ? Turn{turn.epoch + 1, 0} : Turn{turn.epoch, turn.index + 1};
  const std::size_t next_shard = last ? make_epoch(turn.epoch + 1).order[0] : epoch_.order[turn.index + 1];
  try {
    next_ = std::async(std::launch::async, [this, next_shard] { return load(next_shard); });
  } catch (const std::system_error&) {
    next_ = {};  // the system has no thread to give: read when its turn comes
  }
}

void BertShards::fill(std::int64_t first_sample, Batch& batch) {
  TS_ASSERT(batch.seq_len == seq_len_ && !batch.next_sentence.empty());
  batch.first_sample = first_sample;
  for (std::int64_t b = 0; b < batch.batch_size; ++b) {
    const Spot spot = spot_of(first_sample + b);
    enter_turn(spot.turn);
    copy_row(row_order_[static_cast<std::size_t>(spot.offset)], b, batch);
  }
}

void BertShards::copy_row(std::int64_t row, std::int64_t into, Batch& batch) const {
  const auto copy = [&](const auto& from, std::vector<std::int32_t>& to) {
    const auto begin = from.begin() + row * seq_len_;
    std::copy(begin, begin + seq_len_, to.begin() + into * seq_len_);
  };
  copy(shard_->input_ids, batch.inputs);
  copy(shard_->segment_ids, batch.token_types);
  const auto at = static_cast<std::size_t>(into * seq_len_), size = static_cast<std::size_t>(seq_len_);
  copy_labels(*shard_, row, std::span(batch.targets).subspan(at, size));
  batch.key_counts[static_cast<std::size_t>(into)] = count_keys(*shard_, row);
  batch.next_sentence[static_cast<std::size_t>(into)] =
      shard_->next_sentence_labels[static_cast<std::size_t>(row)];
}

}  // namespace tessera
