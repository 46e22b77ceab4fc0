// CorpusPieces: text files as a sequence of pieces that can be encoded independently.
//
// Used by build_corpus. Where a piece ends depends on the bytes alone, never on the number of threads.
// Files are mapped one at a time and stay mapped as long as a piece of theirs is alive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/mapped_file.h"

namespace tessera {

enum class DocumentUnit {
  file,        // one document; long ones are cut into several pieces (text_cut.h)
  whole_file,  // one document, one piece
  paragraph,   // lines between blank lines
  line,        // every line that is not blank
  json_line,   // every line is a JSON object
};

struct CorpusPiece {
  std::shared_ptr<const MappedFile> file;
  DocumentUnit unit = DocumentUnit::file;
  std::string_view text;       // inside file; whole documents, except for DocumentUnit::file
  bool ends_document = false;  // of a file that is one document: its last piece
};

struct CorpusFile {
  std::filesystem::path path;
  DocumentUnit unit = DocumentUnit::file;
};

class CorpusPieces {
 public:
  // Pieces have at least chunk_bytes, up to the next place where they may end. Throws Error at once when
  // a file is missing.
  CorpusPieces(std::vector<CorpusFile> files, std::int64_t chunk_bytes);

  std::optional<CorpusPiece> next();  // in the order of the corpus
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  std::vector<CorpusFile> files_;
  std::size_t chunk_bytes_;
  std::int64_t num_bytes_ = 0;
  std::size_t next_file_ = 0;
  DocumentUnit unit_ = DocumentUnit::file;
  std::shared_ptr<const MappedFile> file_;  // the one being cut
  std::size_t offset_ = 0;                  // in file_
};

// The file's bytes as text.
std::string_view file_text(const MappedFile& file);

// Calls f(line) for every line, without its "\n" or "\r\n".
template <class F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text = newline == std::string_view::npos ? std::string_view{} : text.substr(newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(line);
  }
}

bool is_blank(std::string_view line);

}  // namespace tessera
