// data.kind = bert.
#include <memory>

#include "tessera/base/error.h"
#include "tessera/data/bert_shards.h"
#include "tessera/train/data_kinds.h"

namespace tessera {
namespace {

Samples samples_of(const DataRequest& request, const char* key, const std::string& folder,
                   const BertShardOptions& options) {
  const auto shards = request.named_by(key, [&] { return std::make_shared<BertShards>(folder, options); });
  return {.fill = [shards](std::int64_t first, Batch& batch) { shards->fill(first, batch); },
          .per_epoch = shards->samples_per_epoch(),
          .pairs = true};
}

}  // namespace

RunData open_bert_data(const DataRequest& request) {
  const DataKeys& keys = request.config.data;
  BertShardOptions options{.vocab_size = request.vocab_size, .seq_len = request.config.train.seq_len};
  RunData data;
  if (request.options.valid && !keys.valid_shards.empty())
    data.valid = samples_of(request, "data.valid_shards", keys.valid_shards, options);
  if (!request.options.train) return data;
  TS_CHECK(!keys.shards.empty(), "data.shards is empty: expected a folder with *_training_*.hdf5");
  options.num_data_ranks = request.config.parallel.dp;
  data.train = samples_of(request, "data.shards", keys.shards, options);
  return data;
}

}  // namespace tessera
