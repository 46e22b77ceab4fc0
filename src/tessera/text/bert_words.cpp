#include "tessera/text/bert_words.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>

#include "tessera/base/error.h"
#include "tessera/text/utf8.h"

namespace tessera {
namespace {

constexpr std::size_t kBatchBytes = 1 << 16;

enum class AsciiClass : unsigned char { dropped, space, punctuation, word };

constexpr std::array<AsciiClass, 128> kClassOfAscii = [] {
  std::array<AsciiClass, 128> classes{};
  for (unsigned char c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    classes[c] = letter               ? AsciiClass::word
                 : space              ? AsciiClass::space
                 : c < ' ' || c > '~' ? AsciiClass::dropped
                                      : AsciiClass::punctuation;
  }
  return classes;
}();

// The blocks of ideographs that the tokenizers library spaces. It begins the sixth at 2B920, where BERT's own
// code has 2B820.
bool is_ideograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

constexpr std::uint32_t kDroppedCategories = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;

bool has_category(char32_t c, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0;
}

const icu::Normalizer2& decomposition() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  TS_CHECK(U_SUCCESS(status), "ICU has no normal form D: {}", u_errorName(status));
  return *nfd;
}

}  // namespace

// After a space, so that no word and no run is cut.
std::size_t BertWords::chunk_end(std::string_view text, std::size_t at) {
  if (text.size() - at <= kBatchBytes) return text.size();
  const std::size_t space = text.find_first_of(" \n", at + kBatchBytes);
  return space == std::string_view::npos ? text.size() : space + 1;
}

void BertWords::split(std::string_view text) {
  words_.clear();
  word_ends_.clear();
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      add_ascii(first);
      ++at;
    } else {
      const DecodedChar decoded = decode_char(text, at);
      add_beyond_ascii(decoded.code_point);
      at += decoded.num_bytes;
    }
  }
  end_run();
  end_word();
}

void BertWords::add_ascii(unsigned char c) {
  const AsciiClass kind = kClassOfAscii[c];
  if (kind == AsciiClass::dropped) return;  // before anything else looks: it does not end a run
  if (!run_.empty()) end_run();
  if (kind == AsciiClass::word) {
    words_.push_back(static_cast<char>(lower_case_ && c >= 'A' && c <= 'Z' ? c | 0x20 : c));
    return;
  }
  end_word();
  if (kind == AsciiClass::space) return;
  words_.push_back(static_cast<char>(c));
  end_word();
}

void BertWords::add_beyond_ascii(char32_t code_point) {
  if (code_point == 0xfffd || has_category(code_point, kDroppedCategories)) return;
  const bool alone = is_ideograph(code_point);
  if (alone || u_isUWhiteSpace(static_cast<UChar32>(code_point))) {
    end_run();
    end_word();
    if (!alone) return;
  }
  add_to_run(code_point);
  if (alone) {
    end_run();
    end_word();
  }
}

void BertWords::add_to_run(char32_t code_point) {
  if (!lower_case_) return add_normalized(code_point);
  if (code_point < 0x10000) {
    run_.push_back(static_cast<char16_t>(code_point));
  } else {
    run_.push_back(static_cast<char16_t>(U16_LEAD(static_cast<UChar32>(code_point))));
    run_.push_back(static_cast<char16_t>(U16_TRAIL(static_cast<UChar32>(code_point))));
  }
}

// Decomposed, so that an accent is a character of its own, which is then left out.
void BertWords::end_run() {
  if (run_.empty()) return;
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString whole(false, run_.data(), static_cast<std::int32_t>(run_.size()));
  const icu::UnicodeString decomposed = decomposition().normalize(whole, status);
  TS_CHECK(U_SUCCESS(status), "ICU could not normalise a text: {}", u_errorName(status));
  for (std::int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
    const UChar32 code_point = decomposed.char32At(i);
    if (has_category(static_cast<char32_t>(code_point), U_GC_MN_MASK)) continue;
    add_normalized(static_cast<char32_t>(u_tolower(code_point)));
  }
  run_.clear();
}

void BertWords::add_normalized(char32_t code_point) {
  if (code_point < 0x80) {
    const AsciiClass kind = kClassOfAscii[code_point];
    if (kind == AsciiClass::punctuation) end_word();
    words_.push_back(static_cast<char>(code_point));
    if (kind == AsciiClass::punctuation) end_word();
    return;
  }
  const bool alone = has_category(code_point, U_GC_P_MASK);
  if (alone) end_word();
  append_utf8(code_point, words_);
  if (alone) end_word();
}

void BertWords::end_word() {
  if (words_.size() > (word_ends_.empty() ? 0 : word_ends_.back())) word_ends_.push_back(words_.size());
}

}  // namespace tessera
