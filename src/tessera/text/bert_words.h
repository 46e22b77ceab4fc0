// BertWords: text to the words that WordPiece looks up, by BERT's rules.
//
// Part of WordpieceTokenizer's encoder. Control characters are dropped, whitespace separates words, every
// punctuation mark and every CJK ideograph is a word of its own; an uncased vocabulary also wants accents
// stripped and letters in lower case. ICU knows the characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class BertWords {
 public:
  explicit BertWords(bool lower_case) : lower_case_(lower_case) {}

  // Calls f(words, begin, size) for each word of the text, in order: it is words.substr(begin, size). The
  // text is well-formed UTF-8.
  template <class F>
  void for_each(std::string_view text, F&& f) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = chunk_end(text, at);
      split(text.substr(at, end - at));
      at = end;
      std::size_t begin = 0;
      for (const std::size_t word_end : word_ends_) {
        f(std::string_view(words_), begin, word_end - begin);
        begin = word_end;
      }
    }
  }

 private:
  static std::size_t chunk_end(std::string_view text, std::size_t at);
  void split(std::string_view text);
  void add_ascii(unsigned char c);
  void add_beyond_ascii(char32_t code_point);
  void add_to_run(char32_t code_point);
  void add_normalized(char32_t code_point);
  void end_run();
  void end_word();

  bool lower_case_;
  std::string words_;  // of the present chunk, one after the other
  std::vector<std::size_t> word_ends_;
  std::u16string run_;  // characters beyond ASCII in a row, to be decomposed together
};

}  // namespace tessera
