#include "tessera/data/gpt_index.h"

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/machine_memory.h"

namespace tessera {
namespace {

std::int64_t count_tokens(const IndexedDataset& corpus, const DocumentRange& documents) {
  std::int64_t tokens = 0;
  for (std::int64_t i = documents.begin; i < documents.end; ++i) tokens += corpus.sequence_tokens(i);
  return tokens;
}

void check_request(const GptIndexRequest& request, std::int64_t num_sequences) {
  TS_CHECK(request.seq_len >= 1, "seq_len: found {}, expected at least 1", request.seq_len);
  TS_CHECK(request.num_samples >= 1, "num_samples: found {}, expected at least 1", request.num_samples);
  TS_CHECK(request.seed >= 0 && request.seed <= std::numeric_limits<std::uint32_t>::max(),
           "seed: found {}, expected 0 to 2^32 - 1", request.seed);
  // The last epoch may hold as many tokens again.
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 60;
  TS_CHECK(request.seq_len < kMostTokens && request.num_samples <= kMostTokens / request.seq_len,
           "found {} samples of {} tokens, expected at most 2^60 tokens in all", request.num_samples,
           request.seq_len);
  TS_ASSERT(request.documents.begin >= 0 && request.documents.end <= num_sequences);
}

// Elements of an array of i4 and i8, or u4 and i8, whichever the file has.
template <class Narrow>
std::int64_t element(const NpyFile& file, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  if (file.dtype() == npy_dtype<Narrow>()) return static_cast<std::int64_t>(file.values<Narrow>()[at]);
  return file.values<std::int64_t>()[at];
}

void check_map(const NpyFile& file, std::string_view narrow, const std::vector<std::int64_t>& shape) {
  TS_CHECK(file.dtype() == narrow || file.dtype() == "<i8", "{}: found elements of {}, expected {} or <i8",
           file.path().string(), file.dtype(), narrow);
  TS_CHECK(
      file.shape() == shape,
      "{}: found an index map of shape {}, expected {}: it was made for another corpus, split or length; "
      "remove it and its two others, or give another data.cache",
      file.path().string(), npy_shape_text(file.shape()), npy_shape_text(shape));
}

}  // namespace

GptIndexPlan plan_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request) {
  check_request(request, corpus.num_sequences());
  GptIndexPlan plan;
  plan.tokens_per_epoch = count_tokens(corpus, request.documents);
  TS_CHECK(plan.tokens_per_epoch > 0, "{}: the documents {} to {} hold no tokens", corpus.bin_file().string(),
           request.documents.begin, request.documents.end);
  // A sample reads one token past its end, its last target, which is also the next one's first.
  const auto samples_in = [&](std::int64_t epochs) {
    return (epochs * plan.tokens_per_epoch - 1) / request.seq_len;
  };
  const std::int64_t tokens = request.num_samples * request.seq_len + 1;
  plan.num_epochs = (tokens + plan.tokens_per_epoch - 1) / plan.tokens_per_epoch;
  plan.num_samples = samples_in(plan.num_epochs);
  plan.shuffled_together = plan.num_samples;
  if (plan.num_epochs > 1) {
    const std::int64_t before_last = samples_in(plan.num_epochs - 1);
    const auto most_of_an_epoch = static_cast<std::int64_t>(0.80 * static_cast<double>(samples_in(1)));
    plan.separate_last_epoch = request.num_samples - before_last < most_of_an_epoch;
    if (plan.separate_last_epoch) plan.shuffled_together = before_last;
  }
  return plan;
}

// Of the largest map, which is made in memory: the shuffled documents of all epochs, or the shuffled samples.
void check_index_memory(const GptIndexRequest& request, const GptIndexPlan& plan, std::string_view name,
                        std::int64_t found) {
  const auto elements =
      std::max(static_cast<double>(plan.num_samples),
               static_cast<double>(plan.num_epochs) * static_cast<double>(request.documents.size()));
  const double bytes = elements * (elements < 0x1p32 ? 4 : 8);
  const auto machine = static_cast<double>(machine_memory_bytes());
  TS_CHECK(
      bytes <= machine,
      "{}: found {}, which asks for {} samples in {} epochs and needs {:.1f} GB: this machine has {:.1f} "
      "GB of memory",
      name, found, request.num_samples, plan.num_epochs, bytes / 1e9, machine / 1e9);
}

bool GptIndexFiles::exist() const {
  return std::filesystem::exists(doc_idx) && std::filesystem::exists(sample_idx) &&
         std::filesystem::exists(shuffle_idx);
}

GptIndexFiles gpt_index_files(const std::filesystem::path& folder, const std::filesystem::path& prefix,
                              Part part, const GptIndexRequest& request) {
  const std::filesystem::path place = folder.empty() ? prefix : folder / prefix.filename();
  const auto file = [&](const char* map) {
    return std::filesystem::path(fmt::format("{}_{}_indexmap_{}ns_{}sl_{}s_{}.npy", place.string(),
                                             part_name(part), request.num_samples, request.seq_len,
                                             request.seed, map));
  };
  return {file("doc_idx"), file("sample_idx"), file("shuffle_idx")};
}

GptIndex::GptIndex(const GptIndexFiles& files, const GptIndexRequest& request, const GptIndexPlan& plan)
    : documents_(request.documents),
      num_samples_(plan.num_samples),
      doc_idx_(files.doc_idx),
      sample_idx_(files.sample_idx),
      shuffle_idx_(files.shuffle_idx) {
  check_map(doc_idx_, "<i4", {plan.num_epochs * documents_.size()});
  check_map(sample_idx_, "<i4", {num_samples_ + 1, 2});
  check_map(shuffle_idx_, "<u4", {num_samples_});
}

std::int64_t GptIndex::document(std::int64_t index) const {
  TS_CHECK(index < doc_idx_.shape()[0],
           "{}: a sample goes on behind element {}, the last one: it was made for another corpus; remove it "
           "and its two others, or give another data.cache",
           doc_idx_.path().string(), index - 1);
  const std::int64_t document = element<std::int32_t>(doc_idx_, index);
  TS_CHECK(document >= documents_.begin && document < documents_.end,
           "{}: element {} is document {}, expected {} to {}: it was made for another split; remove it and "
           "its two others, or give another data.cache",
           doc_idx_.path().string(), index, document, documents_.begin, documents_.end - 1);
  return document;
}

GptIndex::Place GptIndex::sample_start(std::int64_t sample) const {
  TS_ASSERT(sample >= 0 && sample <= num_samples_);
  const Place place{element<std::int32_t>(sample_idx_, 2 * sample),
                    element<std::int32_t>(sample_idx_, 2 * sample + 1)};
  TS_CHECK(place.document >= 0 && place.document < doc_idx_.shape()[0] && place.offset >= 0,
           "{}: sample {} starts at document {}, token {}, expected a document below {}",
           sample_idx_.path().string(), sample, place.document, place.offset, doc_idx_.shape()[0]);
  return place;
}

void GptIndex::refuse_place(std::int64_t sample, const Place& found, std::string_view expected) const {
  fail(
      "{}: sample {} starts at document {}, token {}, expected {}: it was made for another corpus; remove it "
      "and its two others, or give another data.cache",
      sample_idx_.path().string(), sample, found.document, found.offset, expected);
}

std::int64_t GptIndex::shuffled_sample(std::int64_t number) const {
  TS_ASSERT(number >= 0 && number < num_samples_);
  const std::int64_t sample = element<std::uint32_t>(shuffle_idx_, number);
  TS_CHECK(sample >= 0 && sample < num_samples_, "{}: element {} is sample {}, expected a number below {}",
           shuffle_idx_.path().string(), number, sample, num_samples_);
  return sample;
}

}  // namespace tessera
