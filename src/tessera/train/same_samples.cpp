#include "tessera/train/same_samples.h"

#include "tessera/base/error.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

// The share of the files' samples that training does not see.
double held_out(const DataKeys& data) {
  const bool own_valid = !data.valid_prefix.empty() || !data.valid_texts.empty();
  return own_valid ? 0.0 : data.valid_fraction;
}

}  // namespace

std::int64_t samples_of_order(const RunConfig& config) {
  if (config.data.samples > 0) return config.data.samples;
  std::int64_t samples = 0;
  TS_CHECK(!__builtin_mul_overflow(config.train.steps, config.train.global_batch, &samples),
           "train.steps = {} of train.global_batch = {} samples are more than 2^63", config.train.steps,
           config.train.global_batch);
  return samples;
}

void check_same_samples(const RunConfig& before, const RunConfig& now, const std::string& checkpoint,
                        const std::function<void(const std::string&)>& message) {
  const auto check = [&](const char* key, const auto& was, const auto& is) {
    TS_CHECK(was == is,
             "{} = {}, but {} was trained with {}: resuming would see other samples. To train on from its "
             "weights alone, start a new run with model.weights",
             key, is, checkpoint, was);
  };
  check("train.seed", before.train.seed, now.train.seed);
  check("train.seq_len", before.train.seq_len, now.train.seq_len);
  check("train.global_batch", before.train.global_batch, now.train.global_batch);
  const DataKeys &was = before.data, &is = now.data;
  check("data.kind", data_kind_text(was.kind), data_kind_text(is.kind));
  check("data.shuffle", was.shuffle, is.shuffle);
  check("data.split", was.split, is.split);
  check("data.blend", joined(was.blend, ","), joined(is.blend, ","));
  check("data.valid_fraction", held_out(was), held_out(is));
  check("data.json_key", was.json_key, is.json_key);
  check("data.keep_newlines", was.keep_newlines, is.keep_newlines);
  if (is.kind == DataKindName::megatron) {
    TS_CHECK(samples_of_order(before) == samples_of_order(now),
             "train.steps = {} asks for an order of {} samples, but {} was trained in one of {}: give "
             "data.samples={} to keep it",
             now.train.steps, samples_of_order(now), checkpoint, samples_of_order(before),
             samples_of_order(before));
  }
  const auto say = [&](const char* key, const std::string& old_path, const std::string& path) {
    if (old_path != path) message(fmt::format("{} was {} and is {}", key, old_path, path));
  };
  say("data.prefix", was.prefix, is.prefix);
  say("data.shards", was.shards, is.shards);
  say("data.texts", joined(was.texts, ","), joined(is.texts, ","));
}

}  // namespace tessera
