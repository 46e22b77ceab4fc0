// SentencepieceMerges: the words of a SentencePiece BPE merged by our own table, some thirty times as fast as
// by the library's agenda.
//
// Part of SentencepieceTokenizer, for models whose words stand alone (sentencepiece_words.h). Two neighbours
// merge if they are a piece together, the piece of the highest score first, of its places the leftmost; what
// is no piece is spelled in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/merge_table.h"

namespace tessera {

class SentencepieceMerges {
 public:
  // `model` is the whole .model file. None when its pieces have kinds that the library treats apart, scores
  // that are not all different, characters that are no pieces, or lack a byte.
  static std::optional<SentencepieceMerges> of_model(std::string_view model);

  // Appends the ids of a text without the space that the library puts before it. False, and nothing appended,
  // when the text is not UTF-8.
  bool encode(std::string_view text, std::vector<std::int32_t>& append_to) const;

 private:
  explicit SentencepieceMerges(MergeTable merges) : merges_(std::move(merges)) {}

  std::int32_t id_of(char32_t c) const;  // kNoPiece: spelled in bytes

  static constexpr std::int32_t kNoPiece = -1;

  MergeTable merges_;
  std::array<std::int32_t, 128> ascii_ids_{};
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<char32_t, std::int32_t> other_ids_;
};

}  // namespace tessera
