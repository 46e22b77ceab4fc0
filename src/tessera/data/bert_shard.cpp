#include "tessera/data/bert_shard.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/data/hdf5_file.h"
#include "tessera/data/npy_file.h"

namespace tessera {
namespace {

void check_shape(const Hdf5File& file, const char* name, const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t> found = file.shape(name);
  TS_CHECK(found == expected, "{}: dataset \"{}\" has shape {}, expected {} as input_ids has it",
           file.path().string(), name, npy_shape_text(found), npy_shape_text(expected));
}

BertShardSize size_of(const Hdf5File& file) {
  const std::vector<std::int64_t> ids = file.shape("input_ids"), masked = file.shape("masked_lm_positions");
  TS_CHECK(ids.size() == 2 && masked.size() == 2,
           "{}: input_ids has shape {} and masked_lm_positions {}, expected [rows, tokens] and [rows, "
           "predictions]",
           file.path().string(), npy_shape_text(ids), npy_shape_text(masked));
  const BertShardSize size{ids[0], ids[1], masked[1]};
  check_shape(file, "input_mask", ids);
  check_shape(file, "segment_ids", ids);
  check_shape(file, "masked_lm_positions", {size.num_rows, size.max_predictions});
  check_shape(file, "masked_lm_ids", {size.num_rows, size.max_predictions});
  check_shape(file, "next_sentence_labels", {size.num_rows});
  TS_CHECK(size.num_rows > 0 && size.seq_len > 0, "{}: found {} rows of {} tokens, expected at least one",
           file.path().string(), size.num_rows, size.seq_len);
  return size;
}

void check_values(const BertShard& shard, const std::string& file) {
  const auto within = [&](const char* name, const auto& values, std::int64_t end, const char* what) {
    for (const std::int64_t value : values) {
      TS_CHECK(value >= 0 && value < end, "{}: {} has {}, expected 0 to {}, {}", file, name, value, end - 1,
               what);
    }
  };
  within("masked_lm_positions", shard.masked_lm_positions, shard.seq_len, "a place of the sequence");
  within("segment_ids", shard.segment_ids, 2, "the first sentence or the second");
  within("next_sentence_labels", shard.next_sentence_labels, 2, "whether the second follows the first");
  for (std::int64_t row = 0; row < shard.num_rows; ++row) {
    const auto first = shard.input_mask.begin() + row * shard.seq_len, last = first + shard.seq_len;
    const auto padding = first + count_keys(shard, row);
    TS_CHECK(padding != first && std::all_of(first, padding, [](std::int8_t m) { return m == 1; }) &&
                 std::all_of(padding, last, [](std::int8_t m) { return m == 0; }),
             "{}: row {} of input_mask is not ones and then zeros: expected padding at the end alone", file,
             row);
  }
}

}  // namespace

BertShardSize bert_shard_size(const std::filesystem::path& path) {
  return size_of(Hdf5File(path));
}

BertShard read_bert_shard(const std::filesystem::path& path) {
  const Hdf5File file(path);
  const BertShardSize size = size_of(file);
  BertShard shard;
  shard.num_rows = size.num_rows;
  shard.seq_len = size.seq_len;
  shard.max_predictions = size.max_predictions;
  shard.input_ids = file.read<std::int32_t>("input_ids");
  shard.input_mask = file.read<std::int8_t>("input_mask");
  shard.segment_ids = file.read<std::int8_t>("segment_ids");
  shard.masked_lm_positions = file.read<std::int32_t>("masked_lm_positions");
  shard.masked_lm_ids = file.read<std::int32_t>("masked_lm_ids");
  shard.next_sentence_labels = file.read<std::int8_t>("next_sentence_labels");
  check_values(shard, path.string());
  return shard;
}

std::unique_ptr<AtomicFile> prepare_bert_shard(const std::filesystem::path& path, const BertShard& shard) {
  Hdf5Writer file(path);
  const std::vector<std::int64_t> tokens{shard.num_rows, shard.seq_len};
  const std::vector<std::int64_t> predictions{shard.num_rows, shard.max_predictions};
  file.write("input_ids", shard.input_ids, tokens);
  file.write("input_mask", shard.input_mask, tokens);
  file.write("segment_ids", shard.segment_ids, tokens);
  file.write("masked_lm_positions", shard.masked_lm_positions, predictions);
  file.write("masked_lm_ids", shard.masked_lm_ids, predictions);
  file.write("next_sentence_labels", shard.next_sentence_labels, {shard.num_rows});
  std::unique_ptr<AtomicFile> written = file.finish();
  written->flush_and_close();
  return written;
}

void write_bert_shard(const std::filesystem::path& path, const BertShard& shard) {
  prepare_bert_shard(path, shard)->commit();
}

std::int32_t count_keys(const BertShard& shard, std::int64_t row) {
  const auto first = shard.input_mask.begin() + row * shard.seq_len;
  return static_cast<std::int32_t>(std::find(first, first + shard.seq_len, 0) - first);
}

void copy_labels(const BertShard& shard, std::int64_t row, std::span<std::int32_t> out) {
  TS_ASSERT(row >= 0 && row < shard.num_rows && std::ssize(out) == shard.seq_len);
  std::fill(out.begin(), out.end(), kNotScored);
  const auto first = static_cast<std::size_t>(row * shard.max_predictions);
  const auto size = static_cast<std::size_t>(shard.max_predictions);
  for (std::size_t i = first; i < first + size; ++i) {
    const std::int32_t position = shard.masked_lm_positions[i];
    if (position == 0) return;  // [CLS] is never masked: padding begins
    out[static_cast<std::size_t>(position)] = shard.masked_lm_ids[i];
  }
}

}  // namespace tessera
