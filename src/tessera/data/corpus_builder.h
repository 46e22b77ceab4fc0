// build_corpus: text or JSON lines in, PREFIX.bin and PREFIX.idx (indexed_dataset.h) out, on all cores.
//
// Used by `tessera data`. Documents keep their order and the output is the same bytes for every number of
// threads and every chunk size. A large file is encoded in chunks even when it is one document, so what is
// allocated is bounded by threads x (chunk, or the longest document of a JSON, paragraph or line corpus);
// the input is mapped, and the kernel takes its pages back when it wants them.
// The text library is not needed here: the tokenizer comes in as a function.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/thread_pool.h"

namespace tessera {

// Appends the ids of `text`. With CorpusOptions::cut_files a document may be given in parts, see text_cut.h:
// an encoder that adds ids or a space of its own at the start or end of a text does not fit.
using EncodeFunction = std::function<void(std::string_view text, std::vector<std::int32_t>& append_to)>;
// Called once per thread, so that an encoder may keep caches.
using EncoderFactory = std::function<EncodeFunction()>;
// Called from the calling thread only.
using ProgressFunction = std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)>;

enum class CorpusFormat {
  by_extension,  // .jsonl, .ndjson and .json are JSON lines, everything else is text
  text,
  json_lines,  // a JSON object per line
};

bool is_json_corpus(const std::filesystem::path& path, CorpusFormat format);

enum class TextDocuments {
  file,       // the whole file is one document
  paragraph,  // blank lines separate documents
  line,       // every line that is not blank
};

struct CorpusOptions {
  CorpusFormat format = CorpusFormat::by_extension;
  TextDocuments documents = TextDocuments::file;  // of text files
  std::string json_key = "text";                  // whose value, a string, is the document
  std::int64_t vocab_size = 0;                    // decides the dtype; no id may reach it
  std::int32_t end_of_document_id = 0;            // appended to every document
  std::int64_t chunk_bytes = 1 << 20;             // of text per task
  bool cut_files = true;  // whether a file that is one document may be encoded in parts
};

struct CorpusSummary {
  std::int64_t num_documents = 0;
  std::int64_t num_empty_documents = 0;  // gave no ids, so were left out
  std::int64_t num_tokens = 0;           // end-of-document ids included
  std::int64_t num_bytes = 0;            // of input
};

// Throws Error for a missing file, a bad JSON line (file, line number, what was found), an id outside the
// vocabulary, for input without a single document, and while another process writes under the prefix. On any
// exception it leaves nothing there.
CorpusSummary build_corpus(ThreadPool& pool, const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& prefix, const CorpusOptions& options,
                           const EncoderFactory& make_encoder, const ProgressFunction& progress = {});

}  // namespace tessera
