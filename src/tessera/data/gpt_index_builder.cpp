// build_gpt_index: the arithmetic of the three maps. The order of the draws matters: the shuffles of doc_idx
// come before those of shuffle_idx, from one generator. All three are on the disk before the first appears:
// maps of two orders would look right together.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/data/gpt_index.h"
#include "tessera/data/numpy_random.h"

namespace tessera {
namespace {

constexpr std::size_t kBufferedPlaces = 1 << 16;

using WrittenFile = std::unique_ptr<NpyWriter>;  // not under its name yet

template <class T>
std::vector<T> make_doc_idx(const GptIndexRequest& request, const GptIndexPlan& plan, NumpyRandom& random) {
  const auto num_documents = static_cast<std::size_t>(request.documents.size());
  std::vector<T> documents(num_documents * static_cast<std::size_t>(plan.num_epochs));
  for (std::size_t epoch = 0; epoch < documents.size(); epoch += num_documents) {
    const auto first = documents.begin() + static_cast<std::ptrdiff_t>(epoch);
    std::iota(first, first + static_cast<std::ptrdiff_t>(num_documents),
              static_cast<T>(request.documents.begin));
  }
  const std::span<T> all(documents);
  const std::size_t num_apart = plan.separate_last_epoch ? num_documents : 0;
  random.shuffle(all.first(all.size() - num_apart));
  if (num_apart > 0) random.shuffle(all.last(num_apart));
  return documents;
}

// Walks the documents, seq_len tokens a sample, and writes the place where each sample starts.
template <class Place, class Document>
WrittenFile write_sample_idx(const IndexedDataset& corpus, std::int64_t seq_len, std::int64_t num_samples,
                             std::span<const Document> doc_idx, const std::filesystem::path& path) {
  auto file =
      std::make_unique<NpyWriter>(path, npy_dtype<Place>(), std::vector<std::int64_t>{num_samples + 1, 2});
  std::vector<Place> buffer;
  buffer.reserve(2 * kBufferedPlaces);
  std::size_t document = 0;
  std::int64_t offset = 0;
  std::int64_t size = corpus.sequence_tokens(doc_idx[0]);
  for (std::int64_t sample = 0; sample <= num_samples; ++sample) {
    if (sample > 0) {
      // The token after the sample is its last target, so it must be there; the next sample starts with it.
      std::int64_t to_go = seq_len;
      while (offset + to_go >= size) {
        to_go -= size - offset;
        offset = 0;
        TS_ASSERT(document + 1 < doc_idx.size());
        size = corpus.sequence_tokens(doc_idx[++document]);
      }
      offset += to_go;
    }
    buffer.push_back(static_cast<Place>(document));
    buffer.push_back(static_cast<Place>(offset));
    if (buffer.size() == 2 * kBufferedPlaces || sample == num_samples) {
      file->write(std::span<const Place>(buffer));
      buffer.clear();
    }
  }
  return file;
}

template <class T>
WrittenFile write_array(const std::vector<T>& values, const std::filesystem::path& path) {
  auto file =
      std::make_unique<NpyWriter>(path, npy_dtype<T>(), std::vector<std::int64_t>{std::ssize(values)});
  file->write(std::span<const T>(values));
  return file;
}

template <class T>
WrittenFile write_shuffle_idx(const GptIndexPlan& plan, NumpyRandom& random,
                              const std::filesystem::path& path) {
  std::vector<T> samples(static_cast<std::size_t>(plan.num_samples));
  std::iota(samples.begin(), samples.end(), T{0});
  const auto together = static_cast<std::size_t>(plan.shuffled_together);
  random.shuffle(std::span(samples).first(together));
  random.shuffle(std::span(samples).subspan(together));
  return write_array(samples, path);
}

template <class Document>
std::array<WrittenFile, 2> write_documents_and_samples(const IndexedDataset& corpus,
                                                       const GptIndexRequest& request,
                                                       const GptIndexPlan& plan, NumpyRandom& random,
                                                       const GptIndexFiles& files) {
  const std::vector<Document> doc_idx = make_doc_idx<Document>(request, plan, random);
  const std::span<const Document> documents(doc_idx);
  const auto write = [&]<class Place>(Place) {
    return write_sample_idx<Place>(corpus, request.seq_len, plan.num_samples, documents, files.sample_idx);
  };
  // Offsets are below the size of a sequence, which is 32-bit in the .idx itself.
  const bool wide = request.wide || std::ssize(doc_idx) > std::numeric_limits<std::int32_t>::max();
  return {write_array(doc_idx, files.doc_idx), wide ? write(std::int64_t{}) : write(std::int32_t{})};
}

}  // namespace

void build_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request,
                     const GptIndexFiles& files) {
  const GptIndexPlan plan = plan_gpt_index(corpus, request);
  NumpyRandom random(static_cast<std::uint32_t>(request.seed));
  const auto [doc_idx, sample_idx] =
      request.wide || request.documents.end > std::numeric_limits<std::int32_t>::max()
          ? write_documents_and_samples<std::int64_t>(corpus, request, plan, random, files)
          : write_documents_and_samples<std::int32_t>(corpus, request, plan, random, files);
  // The original's own bound for going to 64 bits.
  const auto shuffle_idx = request.wide || plan.num_samples >= std::numeric_limits<std::uint32_t>::max() - 1
                               ? write_shuffle_idx<std::int64_t>(plan, random, files.shuffle_idx)
                               : write_shuffle_idx<std::uint32_t>(plan, random, files.shuffle_idx);
  const std::array written{doc_idx.get(), sample_idx.get(), shuffle_idx.get()};
  for (NpyWriter* const file : written) file->flush();
  for (NpyWriter* const file : written) file->commit();
}

}  // namespace tessera
