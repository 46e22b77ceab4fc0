#include "tessera/text/sentencepiece_words.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tessera {
namespace {

// The fields of one protobuf message, the last of each number: numbers as they are, strings and messages as
// their bytes. Debian's package has no generated headers for the model, and two dozen bytes of settings need
// none.
struct Message {
  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::uint64_t, std::string_view> strings;

  std::uint64_t number(std::uint64_t field, std::uint64_t otherwise) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? otherwise : found->second;
  }
};

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<Message> parse_message(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::optional<std::uint64_t> tag = take_varint(bytes);
    if (!tag) return std::nullopt;
    const std::uint64_t field = *tag >> 3, kind = *tag & 7;
    std::uint64_t size = kind == 1 ? 8 : kind == 5 ? 4 : 0;  // fixed64, fixed32
    if (kind == 0 || kind == 2) {
      const std::optional<std::uint64_t> value = take_varint(bytes);
      if (!value) return std::nullopt;
      if (kind == 0) message.numbers[field] = *value;
      if (kind == 2) size = *value;
    } else if (size == 0) {
      return std::nullopt;
    }
    if (size > bytes.size()) return std::nullopt;
    if (kind == 2) message.strings[field] = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  return message;
}

// By the numbers of sentencepiece_model.proto: ModelProto has the trainer's settings in 2, the normaliser's
// in 3.
bool takes_text_as_it_is(std::string_view model) {
  constexpr std::uint64_t kTrainer = 2, kModelType = 3, kBpe = 2, kSpaceAsSuffix = 24, kByteFallback = 35;
  constexpr std::uint64_t kNormalizer = 3, kCharacterMap = 2, kDummyPrefix = 3, kRemoveExtraSpaces = 4,
                          kEscapeSpaces = 5;
  std::optional<Message> root = parse_message(model);
  if (!root || !root->strings.contains(kTrainer) || !root->strings.contains(kNormalizer)) return false;
  const std::optional<Message> trainer = parse_message(root->strings[kTrainer]);
  std::optional<Message> normalizer = parse_message(root->strings[kNormalizer]);
  return trainer && normalizer && trainer->number(kModelType, 1) == kBpe &&
         trainer->number(kSpaceAsSuffix, 0) == 0 && trainer->number(kByteFallback, 0) == 1 &&
         normalizer->strings[kCharacterMap].empty() && normalizer->number(kDummyPrefix, 1) == 1 &&
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
    end = std::min(text.find_first_of(" \n", end), text.size());
    // A text may hold the sign for a space itself, and the space after it goes with it.
    if (end == text.size() || text[end] == '\n' || !text.substr(0, end).ends_with(kSentencepieceSpace)) break;
    end = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return end;
}

}  // namespace tessera
