#include "tessera/data/bert_instances.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

constexpr std::int64_t kSpecialTokens = 3;  // [CLS] a [SEP] b [SEP]

class RandomNumbers {
 public:
  RandomNumbers(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  double uniform() { return philox_uniform(next()); }
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t below(std::int64_t size) {
    return static_cast<std::int64_t>(
        (static_cast<std::uint64_t>(next()) * static_cast<std::uint64_t>(size)) >> 32);
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i-- > 1;)
      std::swap(values[i], values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i) + 1))]);
  }

 private:
  std::uint32_t next() {
    if (used_ == block_.size()) {
      block_ = philox(seed_, counter_++, stream_);
      used_ = 0;
    }
    return block_[used_++];
  }

  std::uint64_t seed_, stream_, counter_ = 0;
  PhiloxBlock block_{};
  std::size_t used_ = 4;
};

struct Pair {
  std::vector<std::int32_t> a, b;
  bool b_is_random = false;
};

struct Instance {
  std::vector<std::int32_t> ids;  // without padding
  std::size_t b_begin = 0;
  bool b_is_random = false;
  std::vector<std::pair<std::int32_t, std::int32_t>> masked;  // position, what stood there
};

void append(std::vector<std::int32_t>& to, std::span<const std::int32_t> tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

class InstanceMaker {
 public:
  InstanceMaker(const BertDocuments& documents, const BertInstanceOptions& options, RandomNumbers& random)
      : documents_(documents),
        options_(options),
        random_(random),
        max_tokens_(options.seq_len - kSpecialTokens) {}

  void add_document(std::int64_t document, std::vector<Instance>& instances) {
    const std::int64_t num_sentences = documents_.num_sentences(document);
    const std::int64_t target =
        random_.chance(options_.short_probability) ? 2 + random_.below(max_tokens_ - 1) : max_tokens_;
    for (std::int64_t first = 0; first < num_sentences;) {
      Pair pair;
      first = take_pair(document, first, target, pair);
      truncate(pair);
      instances.push_back(masked(pair));
    }
  }

 private:
  // Sentences from `first` on until the target is reached; returns the first that is left for the next pair.
  std::int64_t take_pair(std::int64_t document, std::int64_t first, std::int64_t target, Pair& pair) {
    std::int64_t end = first, num_tokens = 0;
    while (end < documents_.num_sentences(document) && num_tokens < target)
      num_tokens += std::ssize(documents_.sentence(document, end++));
    const std::int64_t a_end = end - first >= 2 ? first + 1 + random_.below(end - first - 1) : end;
    for (std::int64_t i = first; i < a_end; ++i) append(pair.a, documents_.sentence(document, i));
    pair.b_is_random = a_end == end || random_.chance(0.5);
    if (pair.b_is_random) {
      take_random(document, target - std::ssize(pair.a), pair.b);
      return a_end;  // what b would have had is not wasted
    }
    for (std::int64_t i = a_end; i < end; ++i) append(pair.b, documents_.sentence(document, i));
    return end;
  }

  void take_random(std::int64_t not_from, std::int64_t target, std::vector<std::int32_t>& out) {
    std::int64_t document = random_.below(documents_.num_documents() - 1);
    if (document >= not_from) ++document;
    const std::int64_t num_sentences = documents_.num_sentences(document);
    std::int64_t sentence = random_.below(num_sentences);
    do append(out, documents_.sentence(document, sentence++));
    while (sentence < num_sentences && std::ssize(out) < target);
  }

  // Token by token from the longer one, at either end.
  void truncate(Pair& pair) {
    std::span<const std::int32_t> a = pair.a, b = pair.b;
    while (std::ssize(a) + std::ssize(b) > max_tokens_) {
      std::span<const std::int32_t>& longer = a.size() > b.size() ? a : b;
      longer = random_.chance(0.5) ? longer.subspan(1) : longer.first(longer.size() - 1);
    }
    pair = {{a.begin(), a.end()}, {b.begin(), b.end()}, pair.b_is_random};
  }

  Instance masked(const Pair& pair) {
    Instance instance;
    instance.b_is_random = pair.b_is_random;
    instance.ids.push_back(options_.cls);
    append(instance.ids, pair.a);
    instance.ids.push_back(options_.sep);
    instance.b_begin = instance.ids.size();
    append(instance.ids, pair.b);
    instance.ids.push_back(options_.sep);

    std::vector<std::size_t> candidates;
    for (std::size_t i = 1; i + 1 < instance.ids.size(); ++i) {
      if (i + 1 != instance.b_begin) candidates.push_back(i);
    }
    random_.shuffle(candidates);
    const double share = std::nearbyint(static_cast<double>(instance.ids.size()) * options_.mask_probability);
    const std::int64_t wanted =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(share), 1, options_.max_predictions);
    candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(wanted)));
    std::sort(candidates.begin(), candidates.end());
    for (const std::size_t position : candidates) {
      std::int32_t& id = instance.ids[position];
      instance.masked.emplace_back(static_cast<std::int32_t>(position), id);
      const double choice = random_.uniform();
      if (choice < 0.8) {
        id = options_.mask;
      } else if (choice < 0.9) {
        id = static_cast<std::int32_t>(random_.below(options_.vocab_size));
      }
    }
    return instance;
  }

  const BertDocuments& documents_;
  const BertInstanceOptions& options_;
  RandomNumbers& random_;
  std::int64_t max_tokens_;
};

BertShard to_arrays(const std::vector<Instance>& instances, const BertInstanceOptions& options) {
  BertShard shard;
  shard.num_rows = std::ssize(instances);
  shard.seq_len = options.seq_len;
  shard.max_predictions = options.max_predictions;
  const auto num_tokens = instances.size() * static_cast<std::size_t>(options.seq_len);
  const auto num_masked = instances.size() * static_cast<std::size_t>(options.max_predictions);
  shard.input_ids.resize(num_tokens);
  shard.input_mask.resize(num_tokens);
  shard.segment_ids.resize(num_tokens);
  shard.masked_lm_positions.resize(num_masked);
  shard.masked_lm_ids.resize(num_masked);
  for (std::size_t row = 0; row < instances.size(); ++row) {
    const Instance& instance = instances[row];
    const std::size_t at = row * static_cast<std::size_t>(options.seq_len);
    for (std::size_t i = 0; i < instance.ids.size(); ++i) {
      shard.input_ids[at + i] = instance.ids[i];
      shard.input_mask[at + i] = 1;
      shard.segment_ids[at + i] = i >= instance.b_begin;
    }
    std::size_t next = row * static_cast<std::size_t>(options.max_predictions);
    for (const auto& [position, id] : instance.masked) {
      shard.masked_lm_positions[next] = position;
      shard.masked_lm_ids[next++] = id;
    }
    shard.next_sentence_labels.push_back(instance.b_is_random);
  }
  return shard;
}

void check_options(const BertDocuments& documents, const BertInstanceOptions& options) {
  TS_CHECK(
      documents.num_documents() >= 2,
      "found {} documents in the texts, expected at least 2, with blank lines between them: a wrong next "
      "sentence comes from another document",
      documents.num_documents());
  TS_CHECK(options.seq_len >= kSpecialTokens + 2 && options.max_predictions >= 1 && options.copies >= 1,
           "found a sequence of {} tokens, {} predictions and {} copies, expected at least {}, 1 and 1",
           options.seq_len, options.max_predictions, options.copies, kSpecialTokens + 2);
  for (const auto& [of, probability] : {std::pair{"masked tokens", options.mask_probability},
                                        {"short sequences", options.short_probability}}) {
    TS_CHECK(probability >= 0 && probability <= 1, "the share of {}: found {}, expected 0 to 1", of,
             probability);
  }
}

}  // namespace

void BertDocuments::end_sentence() {
  if (std::ssize(tokens) > (sentence_ends.empty() ? 0 : sentence_ends.back()))
    sentence_ends.push_back(std::ssize(tokens));
}

void BertDocuments::end_document() {
  end_sentence();
  if (std::ssize(sentence_ends) > (document_ends.empty() ? 0 : document_ends.back()))
    document_ends.push_back(std::ssize(sentence_ends));
}

std::int64_t BertDocuments::num_sentences(std::int64_t document) const {
  const auto at = static_cast<std::size_t>(document);
  return document_ends[at] - (at == 0 ? 0 : document_ends[at - 1]);
}

std::span<const std::int32_t> BertDocuments::sentence(std::int64_t document, std::int64_t index) const {
  const auto at = static_cast<std::size_t>(
      (document == 0 ? 0 : document_ends[static_cast<std::size_t>(document) - 1]) + index);
  const auto begin = static_cast<std::size_t>(at == 0 ? 0 : sentence_ends[at - 1]);
  return std::span(tokens).subspan(begin, static_cast<std::size_t>(sentence_ends[at]) - begin);
}

BertShard make_bert_shard(const BertDocuments& documents, std::int64_t shard, std::int64_t num_shards,
                          const BertInstanceOptions& options) {
  check_options(documents, options);
  TS_ASSERT(shard >= 0 && shard < num_shards);
  TS_CHECK(documents.num_documents() >= num_shards,
           "found {} documents for {} shards, expected at least one for each", documents.num_documents(),
           num_shards);
  RandomNumbers random(options.seed, static_cast<std::uint64_t>(shard));
  InstanceMaker maker(documents, options, random);
  std::vector<Instance> instances;
  for (std::int64_t copy = 0; copy < options.copies; ++copy) {
    for (std::int64_t document = shard; document < documents.num_documents(); document += num_shards)
      maker.add_document(document, instances);
  }
  random.shuffle(instances);
  return to_arrays(instances, options);
}

}  // namespace tessera
