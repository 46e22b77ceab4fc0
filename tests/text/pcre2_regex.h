// A compiled PCRE2 pattern: the independent regular-expression engine that the hand-written split is
// compared with.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class Pcre2Regex {
 public:
  explicit Pcre2Regex(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                          &error, &offset, nullptr);
    if (!code_) throw std::runtime_error("PCRE2 refuses the pattern");
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Pcre2Regex() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Pcre2Regex(const Pcre2Regex&) = delete;
  Pcre2Regex& operator=(const Pcre2Regex&) = delete;

  // All matches from the left; `text` is valid UTF-8.
  std::vector<std::string_view> find_all(std::string_view text) const {
    std::vector<std::string_view> found;
    for (std::size_t at = 0; at < text.size();) {
      const int count = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    at == 0 ? 0 : PCRE2_NO_UTF_CHECK, match_, nullptr);
      if (count == PCRE2_ERROR_NOMATCH) break;
      if (count < 0) throw std::runtime_error("PCRE2 cannot match this text");
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_);
      found.push_back(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    return found;
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* match_ = nullptr;
};

inline std::string pcre2_unicode_version() {
  char text[32] = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, text);
  return text;
}

}  // namespace tessera
