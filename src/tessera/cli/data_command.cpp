#include <limits>
#include <thread>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/terminal.h"
#include "tessera/data/corpus_builder.h"
#include "tessera/metrics/human.h"
#include "tessera/text/bpe_encoder.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/bpe_trainer.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

constexpr const char* kHelp =
    "tessera data COMMAND ...\n"
    "  Text to tokens, tokens to files.\n\n"
    "Commands (each with --help):\n"
    "  bpe       train a byte-level BPE on texts\n"
    "  build     turn texts or JSON lines into PREFIX.bin and PREFIX.idx\n"
    "  tokenize  write the ids of one text as raw int32\n";

int bpe(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out;
  std::int64_t vocab_size = 8192;
  Options options("tessera data bpe", "Train a byte-level BPE; writes vocab.json and merges.txt.");
  options.option("--out FOLDER", &out, "where to write");
  options.option("--vocab-size N", &vocab_size, "tokens, bytes and <|endoftext|> included");
  options.rest("FILE", &files, "the texts");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(!files.empty() && !out.empty(),
           "tessera data bpe needs --out FOLDER and at least one FILE; see --help");
  TS_CHECK(vocab_size >= 1 && vocab_size <= std::numeric_limits<std::int32_t>::max(),
           "--vocab-size: found {}, expected 1 to 2^31 - 1", vocab_size);

  WordCounts counts;
  for (const std::string& file : files) count_words(read_file(file), counts);
  ProgressBar bar(stderr, progress_options("bpe", vocab_size));
  BpeTrainOptions train;
  train.vocab_size = static_cast<int>(vocab_size);
  train.progress = [&](int done, int) { bar.update(done, "tokens"); };
  const BpeVocabulary vocabulary = train_bpe(counts, train);
  bar.finish("tokens");
  save_bpe_vocabulary(vocabulary, out);
  std::printf("%zu tokens in %s\n", vocabulary.tokens.size(), out.c_str());
  return 0;
}

TextDocuments documents_named(const std::string& name) {
  if (name == "file") return TextDocuments::file;
  if (name == "paragraph") return TextDocuments::paragraph;
  TS_CHECK(name == "line", "--documents: found '{}', expected file, paragraph or line", name);
  return TextDocuments::line;
}

int build(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out, tokenizer_folder, documents = "file", key = "text";
  std::int64_t threads = 0;
  Options options("tessera data build",
                  "Turn texts or JSON lines into PREFIX.bin and PREFIX.idx, on all cores.");
  options.option("--out PREFIX", &out, "what to write, without the ending");
  options.option("--tokenizer FOLDER", &tokenizer_folder, "vocab.json and merges.txt");
  options.option("--documents UNIT", &documents, "of a text: file, paragraph or line");
  options.option("--key NAME", &key, "of a JSON line: where its text is");
  options.option("--threads N", &threads, "0: all cores");
  options.rest("FILE", &files, "texts, or JSON lines by their ending .jsonl, .ndjson or .json");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(!files.empty() && !out.empty() && !tokenizer_folder.empty(),
           "tessera data build needs --out PREFIX, --tokenizer FOLDER and at least one FILE; see --help");
  TS_CHECK(threads >= 0 && threads <= 4096, "--threads: found {}, expected 0 to 4096", threads);

  const BpeTokenizer tokenizer = BpeTokenizer::load(tokenizer_folder);
  const std::optional<std::int32_t> end = tokenizer.id_of("<|endoftext|>");
  TS_CHECK(end.has_value(), "{} has no <|endoftext|> token to end documents with", tokenizer_folder);
  CorpusOptions corpus;
  corpus.documents = documents_named(documents);
  corpus.json_key = key;
  corpus.vocab_size = tokenizer.vocab_size();
  corpus.end_of_document_id = *end;
  const EncoderFactory make_encoder = [&]() -> EncodeFunction {
    return [encoder = std::make_shared<BpeEncoder>(tokenizer)](
               std::string_view text, std::vector<std::int32_t>& ids) { encoder->encode(text, ids); };
  };
  if (const auto folder = std::filesystem::path(out).parent_path(); !folder.empty()) {
    std::filesystem::create_directories(folder);
  }
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  ThreadPool pool(static_cast<int>(threads > 0 ? threads : std::max<std::int64_t>(1, cores)));
  std::unique_ptr<ProgressBar> bar;
  const CorpusSummary summary =
      build_corpus(pool, {files.begin(), files.end()}, out, corpus, make_encoder,
                   [&](std::int64_t done, std::int64_t total) {
                     if (!bar)
                       bar = std::make_unique<ProgressBar>(stderr, progress_options("tokenize", total));
                     bar->update(done, human_bytes(static_cast<double>(done)));
                   });
  if (bar) bar->finish(human_bytes(static_cast<double>(summary.num_bytes)));
  std::printf("%lld documents, %lld tokens from %lld bytes in %s.bin\n",
              static_cast<long long>(summary.num_documents), static_cast<long long>(summary.num_tokens),
              static_cast<long long>(summary.num_bytes), out.c_str());
  return 0;
}

int tokenize(int argc, const char* const* argv) {
  std::string in, out, tokenizer_folder;
  Options options("tessera data tokenize", "Write the ids of one text as raw little-endian int32.");
  options.option("--tokenizer FOLDER", &tokenizer_folder, "vocab.json and merges.txt");
  options.option("--in FILE", &in, "the text");
  options.option("--out FILE", &out, "where to write");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(!in.empty() && !out.empty() && !tokenizer_folder.empty(),
           "tessera data tokenize needs --tokenizer, --in and --out; see --help");
  const BpeTokenizer tokenizer = BpeTokenizer::load(tokenizer_folder);
  std::vector<std::int32_t> ids;
  BpeEncoder(tokenizer).encode(read_file(in), ids);
  AtomicFile file(out);
  file.write(ids.data(), ids.size() * sizeof(std::int32_t));
  file.commit();
  std::printf("%zu ids in %s\n", ids.size(), out.c_str());
  return 0;
}

}  // namespace

int data_command(int argc, const char* const* argv) {
  const std::string_view command = argc > 1 ? argv[1] : "--help";
  if (command == "bpe") return bpe(argc - 1, argv + 1);
  if (command == "build") return build(argc - 1, argv + 1);
  if (command == "tokenize") return tokenize(argc - 1, argv + 1);
  if (command == "--help" || command == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const std::vector<std::string> names = {"bpe", "build", "tokenize"};
  fmt::print(stderr, "tessera data: unknown command '{}'{}\n{}", command, did_you_mean(command, names),
             kHelp);
  return 2;
}

}  // namespace tessera
