#include "tessera/text/wordpiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/text/bert_words.h"
#include "tessera/text/char_class.h"
#include "tessera/text/utf8.h"
#include "tessera/text/word_cache.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxWordChars = 100;  // BERT's: a longer word is [UNK]

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::size_t num_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

// A line without the white space at its end: Unicode's, as the library has it.
std::string_view without_space_at_the_end(std::string_view line) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < line.size();) {
    const ClassifiedChar c = classify_char(line, at);
    at += c.num_bytes;
    if (c.char_class != CharClass::space) size = at;
  }
  return line.substr(0, size);
}

bool is_cased(const std::vector<std::string>& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](const std::string& token) {
    const bool capital = std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    return capital && !token.starts_with('[');
  });
}

}  // namespace

WordpieceTokenizer::WordpieceTokenizer(std::vector<std::string> tokens)
    : tokens_(std::move(tokens)), lower_case_(!is_cased(tokens_)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view token = tokens_[i];
    const auto id = static_cast<std::int32_t>(i);
    longest_ = std::max(longest_, token.size());
    // Of a token that stands there twice, the library keeps the last id.
    if (token.size() > 2 && token.starts_with("##")) inside_.insert_or_assign(token.substr(2), id);
    at_start_.insert_or_assign(token, id);
  }
  const std::optional<std::int32_t> unknown = id_of("[UNK]");
  TS_CHECK(unknown.has_value(), "the vocabulary of {} tokens has no [UNK]", tokens_.size());
  unknown_ = *unknown;
  for (const std::string_view name : {"[UNK]", "[SEP]", "[CLS]", "[PAD]", "[MASK]"}) {
    if (const std::optional<std::int32_t> id = id_of(name)) special_.add(name, *id);
  }
}

WordpieceTokenizer WordpieceTokenizer::load(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    tokens.emplace_back(without_space_at_the_end(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  try {
    return WordpieceTokenizer(std::move(tokens));
  } catch (const Error& error) {
    fail("{}: not a WordPiece vocab.txt: {}", path.string(), error.what());
  }
}

class WordpieceTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const WordpieceTokenizer& tokenizer)
      : tokenizer_(tokenizer), words_(tokenizer.lower_case()) {}

  void encode(std::string_view text, std::vector<std::int32_t>& append_to) override {
    const auto add_word = [&](std::string_view words, std::size_t at, std::size_t size) {
      cache_.encode(words, at, size, append_to, [&](std::string_view word, std::vector<std::int32_t>& ids) {
        tokenizer_.encode_word(word, ids);
      });
    };
    tokenizer_.special_.split(
        well_formed(text, repaired_), [&](std::string_view part) { words_.for_each(part, add_word); },
        [&](std::int32_t id) { append_to.push_back(id); });
  }

 private:
  const WordpieceTokenizer& tokenizer_;
  BertWords words_;
  WordCache cache_;
  std::string repaired_;
};

std::unique_ptr<TextEncoder> WordpieceTokenizer::make_encoder() const {
  return std::make_unique<Encoder>(*this);
}

void WordpieceTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& append_to) const {
  const std::size_t first = append_to.size();
  const auto give_up = [&] {
    append_to.resize(first);
    append_to.push_back(unknown_);
  };
  if (num_chars(word) > kMaxWordChars) return give_up();
  for (std::size_t begin = 0; begin < word.size();) {
    const IdsByText& ids = begin == 0 ? at_start_ : inside_;
    std::size_t size = std::min(word.size() - begin, longest_);
    IdsByText::const_iterator found = ids.end();
    for (; size > 0; --size) {
      if (begin + size < word.size() && is_continuation(word[begin + size])) continue;
      if (found = ids.find(word.substr(begin, size)); found != ids.end()) break;
    }
    if (found == ids.end()) return give_up();
    append_to.push_back(found->second);
    begin += size;
  }
}

std::string WordpieceTokenizer::text_of(std::int32_t id) const {
  const std::string& token = tokens_[static_cast<std::size_t>(id)];
  return token.size() > 2 && token.starts_with("##") ? token.substr(2) : " " + token;
}

std::string WordpieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text = Tokenizer::decode(ids);
  return text.starts_with(' ') ? text.substr(1) : text;
}

std::optional<std::int32_t> WordpieceTokenizer::id_of(std::string_view token) const {
  const auto found = at_start_.find(token);
  if (found == at_start_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tessera
