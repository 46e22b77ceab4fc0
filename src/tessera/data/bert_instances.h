// make_bert_shard: BERT's training instances from tokenized documents: pairs of sentences, half of them not
// from the same place, with 15 % of the tokens masked.
//
// Used by `tessera data bert`. The rules are those of BERT's paper and its authors' program: a pair fills the
// sequence (those of one document in ten are shorter), and of the chosen tokens 80 % become [MASK], 10 % a
// random token and 10 % stay. The random numbers are ours: a shard depends on the seed, its number and the
// documents alone, so shards may be made in any order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/data/bert_shard.h"

namespace tessera {

// All documents, one sentence after the other; no sentence and no document is empty.
struct BertDocuments {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sentence_ends;  // into tokens
  std::vector<std::int64_t> document_ends;  // into sentence_ends

  void end_sentence();  // after its tokens were added; nothing when there were none
  void end_document();
  std::int64_t num_documents() const { return std::ssize(document_ends); }
  std::int64_t num_sentences(std::int64_t document) const;
  std::span<const std::int32_t> sentence(std::int64_t document, std::int64_t index) const;
};

struct BertInstanceOptions {
  std::int64_t seq_len = 128;
  std::int64_t max_predictions = 20;
  double mask_probability = 0.15;
  double short_probability = 0.1;  // of a pair that does not fill the sequence
  std::int64_t copies = 10;        // of every document, each masked and paired anew
  std::uint64_t seed = 12345;
  std::int32_t cls = 0, sep = 0, mask = 0;  // ids of [CLS], [SEP], [MASK]
  std::int32_t vocab_size = 0;
};

// The instances of documents shard, shard + num_shards, ..., shuffled. Throws Error for options that make no
// instances, and for fewer than two documents: a wrong next sentence comes from another one.
BertShard make_bert_shard(const BertDocuments& documents, std::int64_t shard, std::int64_t num_shards,
                          const BertInstanceOptions& options);

}  // namespace tessera
