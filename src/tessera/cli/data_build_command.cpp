#include <algorithm>
#include <iterator>
#include <optional>

#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/usable_cores.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/cli/terminal.h"
#include "tessera/data/corpus_builder.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/metrics/human.h"
#include "tessera/train/run_tokenizer.h"

namespace tessera {
namespace {

TextDocuments documents_named(const std::string& name) {
  if (name == "file") return TextDocuments::file;
  if (name == "paragraph") return TextDocuments::paragraph;
  TS_CHECK(name == "line", "--documents: found '{}', expected file, paragraph or line", name);
  return TextDocuments::line;
}

}  // namespace

int data_build_command(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out, tokenizer_path, documents = "file", key = kTextKey;
  std::int64_t threads = 0;
  Options options("tessera data build",
                  "Turn texts or JSON lines into PREFIX.bin and PREFIX.idx, on all cores.");
  options.option("--out PREFIX", &out, "what to write, without the ending");
  options.option("--tokenizer PATH", &tokenizer_path, kTokenizerHelp);
  options.option("--documents UNIT", &documents, "of a text: file, paragraph or line");
  options.option("--key NAME", &key, "of a JSON line: where its text is");
  options.option("--threads N", &threads, "0: all cores");
  options.rest("FILE", &files, "texts, or JSON lines by their ending .jsonl, .ndjson or .json");
  options.require({"--out", "--tokenizer", "FILE"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(threads >= 0 && threads <= 4096, "--threads: found {}, expected 0 to 4096", threads);

  check_prefix("--out", out);
  check_key_is_read(key, files);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  const std::optional<std::int32_t> end = tokenizer->end_of_document();
  TS_CHECK(end.has_value(), "{} has no token to end documents with (<|endoftext|>, [SEP], </s>)",
           tokenizer_path);
  CorpusOptions corpus;
  corpus.documents = documents_named(documents);
  corpus.json_key = key;
  corpus.vocab_size = tokenizer->vocab_size();
  corpus.end_of_document_id = *end;
  corpus.cut_files = tokenizer->encodes_parts_alone();
  std::vector<NamedFile> inputs = tokenizer_inputs(tokenizer_path);
  std::ranges::move(named_files("FILE", files), std::back_inserter(inputs));
  check_outputs(inputs, {{"--out", bin_path(out)}, {"--out", idx_path(out)}});
  std::optional<CreatedFolder> created;
  if (const auto folder = std::filesystem::path(out).parent_path(); !folder.empty()) created.emplace(folder);
  ThreadPool pool(num_threads(threads));
  std::unique_ptr<ProgressBar> bar;
  const CorpusSummary summary =
      build_corpus(pool, {files.begin(), files.end()}, out, corpus, encoders_of(*tokenizer),
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

}  // namespace tessera
