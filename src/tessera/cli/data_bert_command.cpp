#include <algorithm>
#include <charconv>
#include <memory>

#include "tessera/base/atomic_file.h"
#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/folder_lock.h"
#include "tessera/base/mapped_file.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/cli/terminal.h"
#include "tessera/data/bert_instances.h"
#include "tessera/data/corpus_pieces.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/model_keys.h"

namespace tessera {
namespace {

std::int32_t special_id(const Tokenizer& tokenizer, const std::string& path, const char* name) {
  const std::optional<std::int32_t> id = tokenizer.id_of(name);
  TS_CHECK(id.has_value(), "{}: the vocabulary has no {}, expected BERT's", path, name);
  return *id;
}

void take_vocabulary(const Tokenizer& tokenizer, const std::string& path, BertInstanceOptions& options) {
  options.cls = special_id(tokenizer, path, "[CLS]");
  options.sep = special_id(tokenizer, path, "[SEP]");
  options.mask = special_id(tokenizer, path, "[MASK]");
  options.vocab_size = tokenizer.vocab_size();
}

void check_instances(const BertInstanceOptions& options) {
  const auto check = [](const char* name, auto found, auto least, auto most) {
    TS_CHECK(found >= least && found <= most, "{}: found {}, expected {} to {}", name, found, least, most);
  };
  constexpr std::int64_t kShortest = 5;  // [CLS] a [SEP] b [SEP]
  check("--seq", options.seq_len, kShortest, kMaxPositions);
  TS_CHECK(options.max_predictions >= 1 && options.max_predictions <= options.seq_len,
           "--predictions: found {}, expected 1 to {}: --seq has no more tokens", options.max_predictions,
           options.seq_len);
  TS_CHECK(options.copies >= 1, "--copies: found {}, expected at least 1", options.copies);
  check("--mask-probability", options.mask_probability, 0, 1);
  check("--short-probability", options.short_probability, 0, 1);
}

BertDocuments read_documents(const Tokenizer& tokenizer, const std::vector<std::string>& files) {
  BertDocuments documents;
  const std::unique_ptr<TextEncoder> encoder = tokenizer.make_encoder();
  for (const std::string& path : files) {
    const MappedFile file(path);
    for_each_line(file_text(file), [&](std::string_view line) {
      if (is_blank(line)) return documents.end_document();
      encoder->encode(line, documents.tokens);
      documents.end_sentence();
    });
    documents.end_document();
  }
  return documents;
}

std::string shard_file(const std::string& name, std::int64_t shard) {
  return fmt::format("{}_training_{}.hdf5", name, shard);
}

// Training reads all shards of a folder: those of an earlier call, of which there were more, too.
void check_no_other_shards(const std::filesystem::path& folder, const std::string& name,
                           std::int64_t num_shards) {
  if (!std::filesystem::is_directory(folder)) return;
  const std::string begin = name + "_training_", end = ".hdf5";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(begin) || !file.ends_with(end)) continue;
    std::int64_t shard = -1;
    std::from_chars(file.data() + begin.size(), file.data() + file.size() - end.size(), shard);
    const bool written_again = shard >= 0 && shard < num_shards && file == shard_file(name, shard);
    TS_CHECK(written_again,
             "{} is there already, and training would read it with the {} shards: expected "
             "another --out, or no other shards of this name",
             entry.path().string(), num_shards);
  }
}

}  // namespace

int data_bert_command(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out, tokenizer_path, name = "corpus";
  std::int64_t num_shards = 8, seed = 12345;
  std::optional<std::int64_t> predictions;
  BertInstanceOptions instances;
  Options options(
      "tessera data bert",
      "Make BERT's training data: HDF5 shards of sentence pairs with masked tokens. A text has one sentence "
      "per line and blank lines between documents.");
  options.option("--out FOLDER", &out, "where to write NAME_training_0.hdf5 and so on");
  options.option("--tokenizer PATH", &tokenizer_path, "BERT's vocab.txt");
  options.option("--shards N", &num_shards,
                 "files to write; training wants one for each data-parallel rank at least");
  options.option("--name NAME", &name, "how the files' names begin");
  options.option("--seq N", &instances.seq_len, "tokens of a sequence");
  options.option("--predictions N", &predictions,
                 "masked tokens of a sequence at most (default: 20, or --seq if that is less)");
  options.option("--mask-probability P", &instances.mask_probability, "share of the tokens that is masked");
  options.option("--short-probability P", &instances.short_probability, "share of shorter sequences");
  options.option("--copies N", &instances.copies, "how often each document is used, masked anew");
  options.option("--seed S", &seed, "of pairs and masks");
  options.rest("FILE", &files, "the texts");
  options.require({"--out", "--tokenizer", "FILE"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(num_shards >= 1, "--shards: found {}, expected at least 1", num_shards);
  instances.max_predictions = predictions.value_or(std::min(instances.max_predictions, instances.seq_len));
  check_instances(instances);
  check_no_other_shards(out, name, num_shards);

  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  instances.seed = static_cast<std::uint64_t>(seed);
  take_vocabulary(*tokenizer, tokenizer_path, instances);
  const std::vector<NamedFile> inputs = named_files("FILE", files);
  const BertDocuments documents = read_documents(*tokenizer, files);
  std::optional<CreatedFolder> created;
  std::optional<FolderLock> lock;                    // shards of two writers would look right together
  std::vector<std::unique_ptr<AtomicFile>> written;  // as would those of two calls: all appear after the last
  ProgressBar bar(stderr, progress_options("bert", num_shards));
  std::int64_t num_rows = 0;
  for (std::int64_t shard = 0; shard < num_shards; ++shard) {
    const BertShard made = make_bert_shard(documents, shard, num_shards, instances);
    const std::filesystem::path file = std::filesystem::path(out) / shard_file(name, shard);
    check_outputs(inputs, {{"--out", file}});
    if (!lock) {
      created.emplace(out);
      lock.emplace(out);
    }
    written.push_back(prepare_bert_shard(file, made));
    num_rows += made.num_rows;
    bar.update(shard + 1, "shards");
  }
  for (const auto& file : written) file->commit();
  bar.finish("shards");
  fmt::print("{} sequences of {} documents in {} shards in {}\n", num_rows, documents.num_documents(),
             num_shards, out);
  return 0;
}

}  // namespace tessera
