#include "tessera/data/bert_instances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include "data/scratch_folder.h"

namespace tessera {
namespace {

constexpr std::int32_t kCls = 1, kSep = 2, kMask = 3, kVocabSize = 100'000;

// 40 documents of 30 sentences of 3 to 12 tokens; a token says where it stands, so that a pair can be traced
// back.
BertDocuments counted_documents() {
  BertDocuments documents;
  std::int32_t next = 1000;
  for (int document = 0; document < 40; ++document) {
    for (int sentence = 0; sentence < 30; ++sentence) {
      for (int token = 0; token < 3 + (document * 7 + sentence * 5) % 10; ++token)
        documents.tokens.push_back(next++);
      documents.end_sentence();
    }
    documents.end_sentence();  // an empty one is none
    documents.end_document();
    documents.end_document();
  }
  return documents;
}

BertInstanceOptions options() {
  return {.copies = 4, .cls = kCls, .sep = kSep, .mask = kMask, .vocab_size = kVocabSize};
}

struct Row {
  std::vector<std::int32_t> ids, original;  // without padding; original: the masked put back
  std::size_t b_begin = 0;
};

Row row_of(const BertShard& shard, std::int64_t number) {
  Row row;
  const auto at = static_cast<std::size_t>(number * shard.seq_len);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shard.seq_len) && shard.input_mask[at + i] == 1; ++i) {
    row.ids.push_back(shard.input_ids[at + i]);
    row.b_begin += shard.segment_ids[at + i] == 0;
  }
  row.original = row.ids;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(shard.seq_len));
  copy_labels(shard, number, labels);
  for (std::size_t i = 0; i < row.ids.size(); ++i) {
    if (labels[i] != kNotScored) row.original[i] = labels[i];
  }
  return row;
}

std::int64_t document_of(const BertDocuments& documents, std::int32_t token) {
  const std::int64_t place = token - 1000;
  const auto sentence =
      std::upper_bound(documents.sentence_ends.begin(), documents.sentence_ends.end(), place) -
      documents.sentence_ends.begin();
  return std::upper_bound(documents.document_ends.begin(), documents.document_ends.end(), sentence) -
         documents.document_ends.begin();
}

TEST(BertInstances, ArePairsOfTheDocuments) {
  const BertDocuments documents = counted_documents();
  ASSERT_EQ(documents.num_documents(), 40);
  const BertShard shard = make_bert_shard(documents, 0, 1, options());
  std::int64_t num_random = 0;
  for (std::int64_t number = 0; number < shard.num_rows; ++number) {
    const Row row = row_of(shard, number);
    ASSERT_EQ(row.original.front(), kCls);
    ASSERT_EQ(row.original.back(), kSep);
    ASSERT_EQ(row.original[row.b_begin - 1], kSep);
    ASSERT_EQ(std::count(row.original.begin(), row.original.end(), kSep), 2);
    const std::vector<std::int32_t> a(row.original.begin() + 1,
                                      row.original.begin() + static_cast<long>(row.b_begin) - 1);
    const std::vector<std::int32_t> b(row.original.begin() + static_cast<long>(row.b_begin),
                                      row.original.end() - 1);
    ASSERT_FALSE(a.empty() || b.empty());
    for (const auto* part : {&a, &b}) {
      for (std::size_t i = 1; i < part->size(); ++i) ASSERT_EQ((*part)[i], (*part)[0] + static_cast<int>(i));
    }
    const bool is_random = shard.next_sentence_labels[static_cast<std::size_t>(number)] == 1;
    ASSERT_EQ(document_of(documents, a[0]) != document_of(documents, b[0]), is_random);
    ASSERT_TRUE(is_random || b[0] > a.back());
    num_random += is_random;
  }
  EXPECT_GT(shard.num_rows, 200);
  EXPECT_NEAR(static_cast<double>(num_random) / static_cast<double>(shard.num_rows), 0.5, 0.1);
}

// A short one has a length drawn evenly; the others fill their sequence while their document lasts.
TEST(BertInstances, AreShorterAsOftenAsAsked) {
  const auto mean_size = [](double short_probability) {
    BertInstanceOptions some = options();
    some.short_probability = short_probability;
    const BertShard shard = make_bert_shard(counted_documents(), 0, 1, some);
    return static_cast<double>(std::count(shard.input_mask.begin(), shard.input_mask.end(), 1)) /
           static_cast<double>(shard.num_rows);
  };
  EXPECT_GT(mean_size(0.0), 95);
  EXPECT_LT(mean_size(1.0), 80);
  EXPECT_GT(mean_size(0.0), mean_size(0.3) + 2);
}

TEST(BertInstances, AreMasked80To10To10) {
  const BertShard shard = make_bert_shard(counted_documents(), 0, 1, options());
  double num_masked = 0, num_random = 0, num_kept = 0;
  for (std::int64_t number = 0; number < shard.num_rows; ++number) {
    const Row row = row_of(shard, number);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(shard.seq_len));
    copy_labels(shard, number, labels);
    std::int64_t predictions = 0;
    for (std::size_t i = 0; i < row.ids.size(); ++i) {
      if (labels[i] == kNotScored) continue;
      ++predictions;
      ASSERT_GE(labels[i], 1000);  // never [CLS] or [SEP]
      num_masked += row.ids[i] == kMask;
      num_kept += row.ids[i] == labels[i];
      num_random += row.ids[i] != kMask && row.ids[i] != labels[i];
    }
    const double share = std::nearbyint(static_cast<double>(row.ids.size()) * 0.15);
    ASSERT_EQ(predictions, std::clamp<std::int64_t>(static_cast<std::int64_t>(share), 1, 20));
  }
  const double all = num_masked + num_random + num_kept;
  EXPECT_NEAR(num_masked / all, 0.8, 0.02);
  EXPECT_NEAR(num_random / all, 0.1, 0.02);
  EXPECT_NEAR(num_kept / all, 0.1, 0.02);
}

TEST(BertInstances, DependOnSeedAndShardAlone) {
  const BertDocuments documents = counted_documents();
  const BertShard first = make_bert_shard(documents, 1, 3, options());
  EXPECT_TRUE(make_bert_shard(documents, 1, 3, options()).input_ids == first.input_ids);
  BertInstanceOptions other = options();
  other.seed = 1;
  EXPECT_FALSE(make_bert_shard(documents, 1, 3, other).input_ids == first.input_ids);
  EXPECT_FALSE(make_bert_shard(documents, 2, 3, options()).input_ids == first.input_ids);
}

// A pair that is too long loses a token at a time, at either end of the longer half. The number stands for
// all ids, as they were when each token was erased from its vector.
TEST(BertInstances, AreCutTokenByToken) {
  BertInstanceOptions some = options();
  some.seq_len = 20;
  std::uint64_t hash = 0;
  for (const std::int32_t id : make_bert_shard(counted_documents(), 0, 1, some).input_ids)
    hash = (hash * 31 + static_cast<std::uint64_t>(id)) % (std::uint64_t{1} << 61);
  EXPECT_EQ(hash, 965160464021344070u);
}

// A text without line ends, as a reader may find it: minutes, if each token moved all those behind it.
TEST(BertInstances, AreCutFromALongLineInTime) {
  BertDocuments documents;
  for (int document = 0; document < 2; ++document) {
    for (std::int32_t token = 0; token < 2'000'000; ++token)
      documents.tokens.push_back(1000 + token % 90'000);
    documents.end_document();
  }
  const std::clock_t start = std::clock();
  EXPECT_GT(make_bert_shard(documents, 0, 1, options()).num_rows, 0);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20);
}

TEST(BertInstances, RefuseWhatMakesNone) {
  BertDocuments one;
  one.tokens = {1000, 1001};
  one.end_document();
  expect_error([&] { make_bert_shard(one, 0, 1, options()); },
               "found 1 documents in the texts, expected at least 2");
  BertInstanceOptions bad = options();
  bad.seq_len = 4;
  expect_error([&] { make_bert_shard(counted_documents(), 0, 1, bad); }, "sequence of 4 tokens");
  bad = options();
  bad.mask_probability = 1.5;
  expect_error([&] { make_bert_shard(counted_documents(), 0, 1, bad); }, "masked tokens: found 1.5");
  expect_error([&] { make_bert_shard(counted_documents(), 0, 41, options()); }, "40 documents for 41 shards");
}

}  // namespace
}  // namespace tessera
