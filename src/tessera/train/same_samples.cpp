#include "tessera/train/same_samples.h"

#include "tessera/base/error.h"
#include "tessera/train/config_schema.h"

namespace tessera {
namespace {

bool has_own_valid(const DataKeys& data) {
  return !data.valid_prefix.empty() || !data.valid_texts.empty();
}

// What training does not see of its files, as their kind says it.
std::string held_out(const DataKeys& data) {
  if (data.kind == DataKindName::megatron) return has_own_valid(data) ? "1,0,0" : data.split;
  return fmt::format("{}", has_own_valid(data) ? 0.0 : data.valid_fraction);
}
std::string held_out_key(const DataKeys& data) {
  const char* const key = data.kind == DataKindName::megatron ? "data.split" : "data.valid_fraction";
  return has_own_valid(data) ? fmt::format("{} beside validation data of its own", key) : key;
}

// Of weights and prefixes in turn.
std::vector<std::string> every_second(const std::vector<std::string>& blend, std::size_t first) {
  std::vector<std::string> found;
  for (std::size_t i = first; i < blend.size(); i += 2) found.push_back(blend[i]);
  return found;
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

void check_same_samples(const RunConfig& before, const RunConfig& now, const std::string& checkpoint) {
  const auto check = [&](std::string_view key, const auto& was, const auto& is) {
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
  check("data.blend without its prefixes", joined(every_second(was.blend, 0), ","),
        joined(every_second(is.blend, 0), ","));
  check(held_out_key(is), held_out(was), held_out(is));
  check("data.json_key", was.json_key, is.json_key);
  check("data.keep_newlines", was.keep_newlines, is.keep_newlines);
  if (is.kind == DataKindName::megatron) {
    TS_CHECK(samples_of_order(before) == samples_of_order(now),
             "train.steps = {} asks for an order of {} samples, but {} was trained in one of {}: give "
             "data.samples={} to keep it",
             now.train.steps, samples_of_order(now), checkpoint, samples_of_order(before),
             samples_of_order(before));
  }
}

}  // namespace tessera
