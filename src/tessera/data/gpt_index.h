// GptIndex: the three maps by which NeMo and Megatron-LM read a corpus in samples of one length, element for
// element.
//
//   doc_idx      the documents of all epochs, shuffled
//   sample_idx   [samples + 1, 2]: where each sample starts, as a place in doc_idx and a token of that
//                document
//   shuffle_idx  the order in which the samples are read
//
// Built once, by one rank, as .npy files under the original's names; every rank maps them. "Documents" are
// the sequences of the .idx, as in the original. Elements are the original's 32-bit, or 64-bit where those
// would overflow. Memory while building: 4 bytes per document and epoch, then 4 per sample; the tokens are
// never looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/data/document_split.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/npy_file.h"

namespace tessera {

struct GptIndexRequest {
  DocumentRange documents;
  std::int64_t seq_len = 0;
  std::int64_t num_samples = 0;  // at least; as many epochs as that takes are laid out whole
  std::int64_t seed = 1234;      // 0 to 2^32 - 1, as NumPy has it
  bool wide = false;             // 64-bit elements whatever the size; set only by tests
};

// What the request comes to on a corpus.
struct GptIndexPlan {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t num_epochs = 0;
  std::int64_t num_samples = 0;        // of all epochs, at least the request's
  std::int64_t shuffled_together = 0;  // samples before the last epoch where that is shuffled apart, else all
  bool separate_last_epoch = false;    // when under 80 % of it are needed
};

// Throws Error when the documents hold no token.
GptIndexPlan plan_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request);

// Throws Error if the maps cannot be made in this machine's memory. It names what asked for the samples: an
// option or a key, and the value found there.
void check_index_memory(const GptIndexRequest& request, const GptIndexPlan& plan, std::string_view name,
                        std::int64_t found);

struct GptIndexFiles {
  std::filesystem::path doc_idx, sample_idx, shuffle_idx;

  bool exist() const;
};

// FOLDER/NAME_train_indexmap_100ns_2048sl_1234s_doc_idx.npy; beside the corpus when the folder is empty.
GptIndexFiles gpt_index_files(const std::filesystem::path& folder, const std::filesystem::path& prefix,
                              Part part, const GptIndexRequest& request);

void build_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request,
                     const GptIndexFiles& files);

class GptIndex {
 public:
  // Throws Error when the files are not what the plan says: made for another corpus, split or length.
  GptIndex(const GptIndexFiles& files, const GptIndexRequest& request, const GptIndexPlan& plan);

  struct Place {
    std::int64_t document = 0;  // index into doc_idx
    std::int64_t offset = 0;    // token of that document

    bool operator==(const Place&) const = default;
  };
  std::int64_t num_samples() const { return num_samples_; }
  std::int64_t document(
      std::int64_t index) const;  // doc_idx[index]; refused outside of the request's documents
  Place sample_start(std::int64_t sample) const;            // up to num_samples(), where the last one ends
  std::int64_t shuffled_sample(std::int64_t number) const;  // the sample read as number `number`

  // Throws Error: the place where a sample starts is not one of this corpus, which has `expected` there.
  [[noreturn]] void refuse_place(std::int64_t sample, const Place& found, std::string_view expected) const;

 private:
  DocumentRange documents_;
  std::int64_t num_samples_ = 0;
  NpyFile doc_idx_, sample_idx_, shuffle_idx_;
};

}  // namespace tessera
