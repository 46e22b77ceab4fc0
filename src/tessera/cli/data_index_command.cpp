#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/folder_lock.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/data/gpt_index.h"

namespace tessera {

int data_index_command(int argc, const char* const* argv) {
  std::string prefix, split = "980,10,10", part = "train", out;
  std::int64_t seq_len = 0, num_samples = 0, seed = 1234;
  Options options(
      "tessera data index",
      "Write the maps by which NeMo reads a corpus: doc_idx.npy, sample_idx.npy and shuffle_idx.npy.");
  options.option("--prefix P", &prefix, "the corpus: P.bin and P.idx");
  options.option("--split WEIGHTS", &split, "shares of the documents for training, validation and test");
  options.option("--part NAME", &part, "train, valid or test");
  options.option("--seq N", &seq_len, "tokens of a sample");
  options.option("--samples N", &num_samples, "how many at least");
  options.option("--seed S", &seed, "of the shuffles");
  options.option("--out DIR", &out, "where to write");
  options.footer("Example: tessera data index --prefix data/wiki --seq 2048 --samples 100000 --out maps");
  options.require({"--prefix", "--seq", "--samples", "--out"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(seq_len >= 1, "--seq: found {}, expected at least 1", seq_len);
  TS_CHECK(num_samples >= 1, "--samples: found {}, expected at least 1", num_samples);

  check_prefix("--prefix", prefix);
  const std::filesystem::path folder(out);
  const GptIndexFiles maps{folder / "doc_idx.npy", folder / "sample_idx.npy", folder / "shuffle_idx.npy"};
  check_outputs({{"--prefix", bin_path(prefix)}, {"--prefix", idx_path(prefix)}},
                {{"--out", maps.doc_idx}, {"--out", maps.sample_idx}, {"--out", maps.shuffle_idx}});
  const IndexedDataset corpus(prefix);
  GptIndexRequest request;
  request.documents =
      split_documents(split, corpus.num_sequences())[static_cast<std::size_t>(part_named(part))];
  TS_CHECK(request.documents.size() > 0, "{}: the split {} leaves no document of {} for {}", prefix, split,
           corpus.num_sequences(), part);
  request.seq_len = seq_len;
  request.num_samples = num_samples;
  request.seed = seed;
  const GptIndexPlan plan = plan_gpt_index(corpus, request);
  check_index_memory(request, plan, "--samples", num_samples);
  const CreatedFolder created(folder);
  const FolderLock lock(folder);  // maps of two writers would look right together
  build_gpt_index(corpus, request, maps);
  fmt::print(
      "    using:\n     number of documents:       {}\n     number of epochs:          {}\n"
      "     sequence length:           {}\n     total number of samples:   {}\n     last epoch shuffled "
      "apart: {}\n",
      request.documents.size(), plan.num_epochs, seq_len, plan.num_samples,
      plan.separate_last_epoch ? "yes" : "no");
  return 0;
}

}  // namespace tessera
