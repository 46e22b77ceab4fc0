#include "tessera/data/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/batch_rows.h"

namespace tessera {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> corpus, const GptIndexRequest& request,
                       const GptIndexFiles& files, std::int64_t vocab_size)
    : corpus_(std::move(corpus)),
      request_(request),
      index_(files, request, plan_gpt_index(*corpus_, request)),
      vocab_size_(vocab_size) {
  TS_CHECK(vocab_size >= 1, "vocab_size: found {}, expected at least 1", vocab_size);
}

void GptDataset::copy_tokens(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const {
  const std::int64_t first_token = corpus_->sequence_start(document) + offset;
  corpus_->copy_tokens(first_token, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    TS_CHECK(out[i] >= 0 && out[i] < vocab_size_,
             "{}: token {} is id {}, but the model's vocabulary has {} ids", corpus_->bin_file().string(),
             first_token + static_cast<std::int64_t>(i), out[i], vocab_size_);
  }
}

// Where the sample ends follows from its length, and sample_idx[i + 1] says the same: its last token, which
// is its last target, is the first of the next one. Maps of other documents differ there, if not where it
// starts.
void GptDataset::copy_sample(std::int64_t number, std::int64_t first, std::span<std::int32_t> out) const {
  TS_ASSERT(first >= 0 && first + std::ssize(out) <= request_.seq_len + 1);
  const bool to_the_end = !out.empty() && first + std::ssize(out) == request_.seq_len + 1;
  const std::int64_t sample = index_.shuffled_sample(number);
  GptIndex::Place place = index_.sample_start(sample);
  const std::int64_t first_size = corpus_->sequence_tokens(index_.document(place.document));
  if (place.offset > 0 && place.offset >= first_size) {  // the very first document may be empty
    index_.refuse_place(sample, place,
                        fmt::format("a token below {}, the size of that document", first_size));
  }
  place.offset += first;
  GptIndex::Place last;
  while (!out.empty()) {
    const std::int64_t document = index_.document(place.document);
    const std::int64_t size = corpus_->sequence_tokens(document);
    if (place.offset < size) {
      const auto count = static_cast<std::size_t>(std::min(size - place.offset, std::ssize(out)));
      copy_tokens(document, place.offset, out.first(count));
      out = out.subspan(count);
      last = {place.document, place.offset + static_cast<std::int64_t>(count) - 1};
      place.offset = size;
    }
    place.offset -= size;
    ++place.document;
  }
  if (!to_the_end) return;
  if (const GptIndex::Place next = index_.sample_start(sample + 1); next != last) {
    index_.refuse_place(
        sample + 1, next,
        fmt::format("document {}, token {}, where the one before it ends", last.document, last.offset));
  }
}

void GptDataset::fill(std::int64_t first_sample, Batch& batch) const {
  const auto copy = [&](std::int64_t number, std::int64_t first, std::span<std::int32_t> out) {
    copy_sample(number % num_samples(), first, out);
  };
  fill_rows(first_sample, seq_len(), batch, copy);
}

bool ensure_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request,
                      const GptIndexFiles& files) {
  if (files.exist()) return false;
  build_gpt_index(corpus, request, files);
  return true;
}

}  // namespace tessera
