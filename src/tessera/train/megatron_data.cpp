// data.kind = megatron.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/data/blend.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/joined_dataset.h"
#include "tessera/train/config_schema.h"
#include "tessera/train/data_kinds.h"
#include "tessera/train/same_samples.h"

namespace tessera {
namespace {

struct WeightedPrefixes {
  const char* key;  // that gives them
  std::vector<double> weights;
  std::vector<std::string> prefixes;
};

WeightedPrefixes blend_of(const std::vector<std::string>& items) {
  TS_CHECK(items.size() % 2 == 0,
           "data.blend: found {} items, expected pairs of a weight and a prefix such as 0.3, data/wiki",
           items.size());
  WeightedPrefixes blend{"data.blend", {}, {}};
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const std::string& text = items[i];
    double weight = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    TS_CHECK(error == std::errc{} && end == text.data() + text.size() && std::isfinite(weight) && weight >= 0,
             "data.blend: found '{}' as the weight of {}, expected a number of 0 or more", text,
             items[i + 1]);
    blend.weights.push_back(weight);
    blend.prefixes.push_back(items[i + 1]);
    sum += weight;
  }
  TS_CHECK(sum > 0, "data.blend: found weights that add up to 0 for {}, expected a sum above 0",
           joined(blend.prefixes, ", "));
  for (std::size_t i = 0; i < blend.weights.size(); ++i) {
    TS_CHECK(blend.weights[i] > 0, "data.blend: the weight of {} is 0, expected more: leave the corpus out",
             blend.prefixes[i]);
  }
  return blend;
}

// One part of one corpus, in NeMo's order.
class PartOfCorpus {
 public:
  PartOfCorpus(const DataRequest& request, const char* key, const std::string& prefix, Part part,
               const std::string& split)
      : request_(request),
        prefix_(prefix),
        part_(part),
        corpus_(request.named_by(key, [&] { return std::make_shared<const IndexedDataset>(prefix); })) {
    index_.documents = split_documents(split, corpus_->num_sequences())[static_cast<std::size_t>(part)];
    index_.seq_len = request.config.train.seq_len;
    index_.seed = request.config.train.seed;
  }

  bool empty() const { return index_.documents.size() == 0; }
  std::int64_t num_documents() const { return corpus_->num_sequences(); }
  std::string size_text() const {
    return fmt::format("{} documents of {} tokens", corpus_->num_sequences(), corpus_->num_tokens());
  }

  // Of one pass over its documents.
  std::int64_t samples_per_epoch() const {
    GptIndexRequest once = index_;
    once.num_samples = 1;
    return std::max<std::int64_t>(1, (plan_gpt_index(*corpus_, once).tokens_per_epoch - 1) / index_.seq_len);
  }

  std::shared_ptr<const GptDataset> open(std::int64_t num_samples) {
    index_.num_samples = num_samples;
    const std::filesystem::path folder = request_.config.data.cache;
    const GptIndexFiles files = gpt_index_files(folder, prefix_, part_, index_);
    request_.make_once([&] {
      if (!files.exist()) check_memory();
      if (!folder.empty()) create_folder(folder, "data.cache");
      if (!files.exist()) check_can_write(files.doc_idx.parent_path());
      const auto start = std::chrono::steady_clock::now();
      const bool made = ensure_gpt_index(*corpus_, index_, files);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      request_.options.message(
          made ? fmt::format("made {} and its two other index maps in {:.1f} s", files.doc_idx.string(),
                             seconds.count())
               : fmt::format("reusing {} and its two other index maps", files.doc_idx.string()));
    });
    return std::make_shared<const GptDataset>(corpus_, index_, files, request_.vocab_size);
  }

 private:
  // Maps go beside the corpus if no other place is given.
  void check_can_write(const std::filesystem::path& folder) const {
    check_can_write_into(folder.empty() ? "." : folder,
                         request_.config.data.cache.empty() ? "data.cache is not given" : "data.cache");
  }
  // Only training asks for more than one pass over what is there.
  void check_memory() const {
    if (part_ != Part::train) return;
    const RunConfig& config = request_.config;
    const bool given = config.data.samples > 0;
    check_index_memory(index_, plan_gpt_index(*corpus_, index_), given ? "data.samples" : "train.steps",
                       given ? config.data.samples : config.train.steps);
  }

  const DataRequest& request_;
  std::string prefix_;
  Part part_;
  std::shared_ptr<const IndexedDataset> corpus_;
  GptIndexRequest index_;
};

template <class Dataset>
Samples samples_of(std::shared_ptr<const Dataset> dataset, const std::string& corpora) {
  return {.fill = [dataset](std::int64_t first, Batch& batch) { dataset->fill(first, batch); },
          .per_epoch = dataset->num_samples(),
          .corpora = corpora};
}

// Index maps are named after the corpus' file alone, as NeMo names them: in one folder two corpora of one
// name would use the same.
void check_own_maps(const std::string& cache, const std::vector<std::string>& prefixes) {
  if (cache.empty()) return;
  std::map<std::string, std::string> by_name;
  for (const std::string& prefix : prefixes) {
    const auto [found, is_new] = by_name.emplace(std::filesystem::path(prefix).filename().string(), prefix);
    const bool same =
        std::filesystem::weakly_canonical(prefix) == std::filesystem::weakly_canonical(found->second);
    TS_CHECK(
        is_new || same,
        "data.cache = {}: the index maps of {} and {} would have the same name there: rename one of them, "
        "or leave data.cache empty",
        cache, found->second, prefix);
  }
}

std::vector<PartOfCorpus> parts_of(const DataRequest& request, const WeightedPrefixes& corpora, Part part,
                                   const std::string& split) {
  std::vector<PartOfCorpus> parts;
  for (const std::string& prefix : corpora.prefixes)
    parts.emplace_back(request, corpora.key, prefix, part, split);
  check_own_maps(request.config.data.cache, corpora.prefixes);
  return parts;
}

Samples open_training(const DataRequest& request, const WeightedPrefixes& corpora, const std::string& split,
                      std::int64_t num_samples) {
  std::vector<PartOfCorpus> parts = parts_of(request, corpora, Part::train, split);
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TS_CHECK(!parts[i].empty(), "{}: the split {} leaves no document of {} for {}", corpora.prefixes[i],
             split, parts[i].num_documents(), part_name(Part::train));
    sizes.push_back(parts[i].size_text());
  }
  const std::string size = joined(sizes, "; ");
  request.options.check_corpora(size);
  if (corpora.weights.empty()) return samples_of(parts[0].open(num_samples), size);
  const std::vector<std::int64_t> counts = blend_sample_counts(num_samples, corpora.weights);
  std::vector<std::shared_ptr<const GptDataset>> datasets;
  for (std::size_t i = 0; i < parts.size(); ++i) datasets.push_back(parts[i].open(counts[i]));
  return samples_of(std::make_shared<const BlendedDataset>(std::move(datasets), corpora.weights, num_samples),
                    size);
}

// One pass over all that is held out, without weights: each sample counts once. None when nothing is.
std::optional<Samples> open_held_out(const DataRequest& request, const WeightedPrefixes& corpora,
                                     const std::string& split) {
  std::vector<std::string> sizes;
  std::vector<std::shared_ptr<const GptDataset>> datasets;
  for (PartOfCorpus& part : parts_of(request, corpora, Part::valid, split)) {
    sizes.push_back(part.size_text());
    if (!part.empty()) datasets.push_back(part.open(part.samples_per_epoch()));
  }
  if (datasets.empty()) return std::nullopt;
  return samples_of(std::make_shared<const JoinedDataset>(std::move(datasets)), joined(sizes, "; "));
}

}  // namespace

RunData open_megatron_data(const DataRequest& request) {
  const DataKeys& keys = request.config.data;
  TS_CHECK(!keys.prefix.empty() || !keys.blend.empty(),
           "data.prefix is empty: expected the path of a .bin/.idx pair without its ending, or data.blend");
  // Without a weight it is no blend: the original asks a corpus that stands alone for exactly what is needed.
  const WeightedPrefixes corpora =
      keys.blend.empty() ? WeightedPrefixes{"data.prefix", {}, {keys.prefix}} : blend_of(keys.blend);
  const bool own_valid = !keys.valid_prefix.empty();
  RunData data;
  if (request.options.train) {
    data.train =
        open_training(request, corpora, own_valid ? "1,0,0" : keys.split, samples_of_order(request.config));
  }
  if (request.options.valid) {
    data.valid = own_valid ? open_held_out(request, {"data.valid_prefix", {}, {keys.valid_prefix}}, "0,1,0")
                           : open_held_out(request, corpora, keys.split);
  }
  return data;
}

}  // namespace tessera
