#include "tessera/data/corpus_pieces.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/text_cut.h"

namespace tessera {
namespace {

// Right after the first newline at or after `from`.
std::size_t find_line_end(std::string_view text, std::size_t from) {
  const std::size_t newline = text.find('\n', from);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

// Right after the first blank line that starts after `from`.
std::size_t find_paragraph_end(std::string_view text, std::size_t from) {
  std::size_t line = find_line_end(text, from);
  while (line < text.size()) {
    const std::size_t end = find_line_end(text, line);
    if (is_blank(text.substr(line, end - line))) return end;
    line = end;
  }
  return text.size();
}

std::size_t find_piece_end(DocumentUnit unit, std::string_view text, std::size_t from) {
  if (from >= text.size()) return text.size();
  switch (unit) {
    case DocumentUnit::file:
      return find_text_cut(text, from);
    case DocumentUnit::whole_file:
      return text.size();
    case DocumentUnit::paragraph:
      return find_paragraph_end(text, from);
    case DocumentUnit::line:
    case DocumentUnit::json_line:
      return find_line_end(text, from - 1);
  }
  return text.size();
}

}  // namespace

std::string_view file_text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

CorpusPieces::CorpusPieces(std::vector<CorpusFile> files, std::int64_t chunk_bytes)
    : files_(std::move(files)) {
  TS_CHECK(chunk_bytes >= 1, "chunk_bytes: found {}, expected at least 1", chunk_bytes);
  chunk_bytes_ = static_cast<std::size_t>(chunk_bytes);
  for (const CorpusFile& file : files_) num_bytes_ += regular_file_bytes(file.path);
}

std::optional<CorpusPiece> CorpusPieces::next() {
  while (!file_) {
    if (next_file_ == files_.size()) return std::nullopt;
    const CorpusFile& file = files_[next_file_++];
    unit_ = file.unit;
    file_ = std::make_shared<const MappedFile>(file.path);
    offset_ = 0;
    if (file_->bytes().empty()) file_ = nullptr;
  }
  const std::string_view text = file_text(*file_);
  const std::size_t end = find_piece_end(unit_, text, offset_ + chunk_bytes_);
  const bool one_document = unit_ == DocumentUnit::file || unit_ == DocumentUnit::whole_file;
  CorpusPiece piece{.file = file_,
                    .unit = unit_,
                    .text = text.substr(offset_, end - offset_),
                    .ends_document = one_document && end == text.size()};
  offset_ = end;
  if (end == text.size()) file_ = nullptr;
  return piece;
}

}  // namespace tessera
