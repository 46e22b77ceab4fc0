#include "tessera/data/corpus_builder.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/corpus_pieces.h"
#include "tessera/data/indexed_dataset_writer.h"
#include "tessera/data/json_line.h"

namespace tessera {
namespace {

// Pieces per thread and round. A round lasts as long as its slowest thread, so several: the threads that
// drew short pieces take the rest.
constexpr std::size_t kPiecesPerThread = 4;

struct EncodedPiece {
  CorpusPiece source;
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> document_ends;  // into tokens; what follows the last one is continued
  std::int64_t num_empty_documents = 0;
  std::exception_ptr error;

  void take(CorpusPiece piece) {
    source = std::move(piece);
    tokens.clear();  // keeps the memory: rounds reuse it
    document_ends.clear();
    num_empty_documents = 0;
  }
};

// The pieces between two meetings of all threads.
struct Round {
  std::vector<EncodedPiece> pieces;
  std::size_t num_pieces = 0;
};

DocumentUnit document_unit(const std::filesystem::path& path, const CorpusOptions& options) {
  if (is_json_corpus(path, options.format)) return DocumentUnit::json_line;
  switch (options.documents) {
    case TextDocuments::file:
      return options.cut_files ? DocumentUnit::file : DocumentUnit::whole_file;
    case TextDocuments::paragraph:
      return DocumentUnit::paragraph;
    case TextDocuments::line:
      return DocumentUnit::line;
  }
  return DocumentUnit::file;
}

// Encodes the documents of one piece. Runs on a worker thread.
class PieceEncoder {
 public:
  PieceEncoder(const EncodeFunction& encode, const CorpusOptions& options, EncodedPiece& piece)
      : encode_(encode), options_(options), piece_(piece) {}

  void run() {
    switch (piece_.source.unit) {
      case DocumentUnit::file:
      case DocumentUnit::whole_file:
        return encode_part_of_file();
      case DocumentUnit::paragraph:
        return encode_paragraphs();
      case DocumentUnit::line:
        return encode_lines();
      case DocumentUnit::json_line:
        return encode_json_lines();
    }
  }

 private:
  void encode(std::string_view text) {
    const std::size_t before = piece_.tokens.size();
    encode_(text, piece_.tokens);
    for (std::size_t i = before; i < piece_.tokens.size(); ++i) {
      const std::int32_t id = piece_.tokens[i];
      TS_CHECK(id >= 0 && id < options_.vocab_size, "{}: the tokenizer gave id {}, its vocabulary has {} ids",
               piece_.source.file->path().string(), id, options_.vocab_size);
    }
  }

  void end_document() {
    piece_.tokens.push_back(options_.end_of_document_id);
    piece_.document_ends.push_back(piece_.tokens.size());
  }

  void encode_document(std::string_view text) {
    const std::size_t before = piece_.tokens.size();
    encode(text);
    if (piece_.tokens.size() == before) {
      ++piece_.num_empty_documents;
    } else {
      end_document();
    }
  }

  void encode_part_of_file() {
    encode(piece_.source.text);
    if (piece_.source.ends_document) end_document();
  }

  void encode_lines() {
    for_each_line(piece_.source.text, [&](std::string_view line) {
      if (!is_blank(line)) encode_document(line);
    });
  }

  void encode_paragraphs() {
    std::optional<std::string_view> paragraph;
    const auto end_paragraph = [&] {
      if (paragraph) encode_document(*paragraph);
      paragraph.reset();
    };
    for_each_line(piece_.source.text, [&](std::string_view line) {
      if (is_blank(line)) return end_paragraph();
      const char* begin = paragraph ? paragraph->data() : line.data();
      paragraph = std::string_view(begin, line.data() + line.size());
    });
    end_paragraph();
  }

  void encode_json_lines() {
    for_each_line(piece_.source.text, [&](std::string_view line) {
      if (is_blank(line)) return;
      std::string text;
      try {
        text = json_line_text(line, options_.json_key);
      } catch (const Error& error) {
        fail("{}:{}: {}", piece_.source.file->path().string(), line_number(line), error.what());
      }
      encode_document(text);
    });
  }

  // Counted only for a message: threads start in the middle of the file.
  std::int64_t line_number(std::string_view line) const {
    return 1 + std::count(file_text(*piece_.source.file).data(), line.data(), '\n');
  }

  const EncodeFunction& encode_;
  const CorpusOptions& options_;
  EncodedPiece& piece_;
};

// `continued`: whether the document that goes on has tokens already. One that ends without any but its end
// gave no ids: in parts of a file that shows only here.
void write_round(const Round& round, bool& continued, IndexedDatasetWriter& writer, CorpusSummary& summary) {
  for (const EncodedPiece& piece : std::span(round.pieces).first(round.num_pieces)) {
    const std::span<const std::int32_t> tokens(piece.tokens);
    std::size_t begin = 0;
    for (const std::size_t end : piece.document_ends) {
      if (end - begin == 1 && !continued) {
        ++summary.num_empty_documents;
      } else {
        writer.add_document(tokens.subspan(begin, end - begin));
      }
      continued = false;
      begin = end;
    }
    writer.add_tokens(tokens.subspan(begin));
    continued = continued || begin < tokens.size();
    summary.num_empty_documents += piece.num_empty_documents;
    summary.num_bytes += std::ssize(piece.source.text);
  }
}

void take_pieces(CorpusPieces& source, Round& round) {
  round.num_pieces = 0;
  while (round.num_pieces < round.pieces.size()) {
    std::optional<CorpusPiece> piece = source.next();
    if (!piece) return;
    round.pieces[round.num_pieces++].take(std::move(*piece));
  }
}

template <class F>
std::exception_ptr exception_of(F&& f) {
  try {
    f();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

void check_options(const CorpusOptions& options) {
  TS_CHECK(options.vocab_size >= 1, "vocab_size: found {}, expected at least 1", options.vocab_size);
  TS_CHECK(options.end_of_document_id >= 0 && options.end_of_document_id < options.vocab_size,
           "end_of_document_id: found {}, expected an id of the vocabulary (0 to {})",
           options.end_of_document_id, options.vocab_size - 1);
}

}  // namespace

bool is_json_corpus(const std::filesystem::path& path, CorpusFormat format) {
  const std::string extension = path.extension().string();
  const bool json_name = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  return format == CorpusFormat::json_lines || (format == CorpusFormat::by_extension && json_name);
}

CorpusSummary build_corpus(ThreadPool& pool, const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& prefix, const CorpusOptions& options,
                           const EncoderFactory& make_encoder, const ProgressFunction& progress) {
  check_options(options);
  std::vector<CorpusFile> corpus_files;
  for (const auto& path : files) corpus_files.push_back({path, document_unit(path, options)});
  CorpusPieces source(std::move(corpus_files), options.chunk_bytes);
  IndexedDatasetWriter writer(prefix, token_dtype_for_vocabulary(options.vocab_size));
  TS_CHECK(writer.is_only_writer(),
           "another process is writing {}.bin and .idx: choose another name, or wait for its end",
           prefix.string());
  std::vector<EncodeFunction> encoders(static_cast<std::size_t>(pool.num_threads()));
  std::generate(encoders.begin(), encoders.end(), make_encoder);

  // Task 0 of a round writes the round before it, so the disk and the encoders work at the same time.
  CorpusSummary summary;
  Round encoding, writing;
  bool continued = false;
  encoding.pieces.resize(kPiecesPerThread * encoders.size());
  writing.pieces.resize(kPiecesPerThread * encoders.size());
  while (true) {
    take_pieces(source, encoding);
    if (encoding.num_pieces + writing.num_pieces == 0) break;
    std::exception_ptr write_error;
    pool.for_each_task(
        static_cast<std::int64_t>(encoding.num_pieces) + 1, [&](std::int64_t task, int worker) {
          if (task == 0) {
            write_error = exception_of([&] { write_round(writing, continued, writer, summary); });
          } else {
            EncodedPiece& piece = encoding.pieces[static_cast<std::size_t>(task - 1)];
            const EncodeFunction& encode = encoders[static_cast<std::size_t>(worker)];
            piece.error = exception_of([&] { PieceEncoder(encode, options, piece).run(); });
          }
        });
    rethrow(write_error);
    for (std::size_t i = 0; i < encoding.num_pieces; ++i) rethrow(encoding.pieces[i].error);
    if (progress) progress(summary.num_bytes, source.num_bytes());
    std::swap(encoding, writing);
  }
  TS_CHECK(writer.num_documents() > 0, "no documents found in the {} input files ({} bytes)", files.size(),
           source.num_bytes());
  writer.finish();
  summary.num_documents = writer.num_documents();
  summary.num_tokens = writer.num_tokens();
  return summary;
}

}  // namespace tessera
