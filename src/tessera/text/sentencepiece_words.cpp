#include "tessera/text/sentencepiece_words.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tessera/text/protobuf_message.h"

namespace tessera {
namespace {

// By the numbers of sentencepiece_model.proto: ModelProto has the trainer's settings in 2, the normaliser's
// in 3.
bool takes_text_as_it_is(std::string_view model) {
  constexpr std::uint64_t kTrainer = 2, kModelType = 3, kBpe = 2, kSpaceAsSuffix = 24, kByteFallback = 35;
  constexpr std::uint64_t kNormalizer = 3, kCharacterMap = 2, kDummyPrefix = 3, kRemoveExtraSpaces = 4,
                          kEscapeSpaces = 5;
  const std::optional<ProtobufMessage> root = parse_protobuf(model);
  if (!root || root->bytes(kTrainer).empty() || root->bytes(kNormalizer).empty()) return false;
  const std::optional<ProtobufMessage> trainer = parse_protobuf(root->bytes(kTrainer));
  const std::optional<ProtobufMessage> normalizer = parse_protobuf(root->bytes(kNormalizer));
  return trainer && normalizer && trainer->number(kModelType, 1) == kBpe &&
         trainer->number(kSpaceAsSuffix, 0) == 0 && trainer->number(kByteFallback, 0) == 1 &&
         normalizer->bytes(kCharacterMap).empty() && normalizer->number(kDummyPrefix, 1) == 1 &&
         normalizer->number(kRemoveExtraSpaces, 1) == 0 && normalizer->number(kEscapeSpaces, 1) == 1;
}

// Spaces, if any, come first, and no newline is beside anything.
bool keeps_to_words(std::string_view piece) {
  std::string_view rest = piece;
  while (rest.starts_with(kSentencepieceSpace)) rest.remove_prefix(kSentencepieceSpace.size());
  const bool has_space =
      rest.find(kSentencepieceSpace) != std::string_view::npos || rest.find(' ') != std::string_view::npos;
  return !has_space && (piece.size() == 1 || piece.find('\n') == std::string_view::npos);
}

}  // namespace

bool sentencepiece_words_stand_alone(std::string_view model,
                                     const sentencepiece::SentencePieceProcessor& processor) {
  if (!takes_text_as_it_is(model)) return false;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (!processor.IsControl(id) && !keeps_to_words(processor.IdToPiece(id))) return false;
  }
  return true;
}

std::size_t sentencepiece_word_end(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '\n') return std::min(text.find_first_not_of('\n', at), text.size());
  std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
  while (end < text.size()) {
    while (end < text.size() && text[end] != ' ' && text[end] != '\n') ++end;  // find_first_of is slower
    // A text may hold the sign for a space itself, and the space after it goes with it.
    if (end == text.size() || text[end] == '\n' || !text.substr(0, end).ends_with(kSentencepieceSpace)) break;
    end = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return end;
}

}  // namespace tessera
