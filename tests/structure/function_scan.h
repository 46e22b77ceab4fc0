// Finds function bodies by counting braces: a reader of layout, not a parser of C++.
//
// Comments, literals and preprocessor lines are blanked first. A brace after a namespace, class, struct,
// union, enum or extern is looked into; any other brace outside a function opens one if the words before
// it hold a parenthesis, and is an initialiser if they end in '='. Macros such as TEST(...) { count as
// functions.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace tessera {

struct FunctionBody {
  std::string head;  // what stands before the brace
  int first_line = 0;
  int num_lines = 0;  // from the head's first line to the closing brace
};

// The text with comments, literals and preprocessor lines turned into spaces; lines stay where they are.
inline std::string blank_non_code(const std::string& text) {
  std::string code = text;
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < code.size(); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    return to;
  };
  bool line_start = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t line_end = std::min(text.find('\n', i), text.size());
    if (line_start && c == '#') {
      std::size_t end = line_end;
      while (end < text.size() && text[end - 1] == '\\')
        end = std::min(text.find('\n', end + 1), text.size());
      i = blank(i, end);
    } else if (text.compare(i, 2, "//") == 0) {
      i = blank(i, line_end);
    } else if (text.compare(i, 2, "/*") == 0) {
      i = blank(i, std::min(text.find("*/", i), text.size()) + 2);
    } else if (text.compare(i, 2, "R\"") == 0) {
      const std::string close = ")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"";
      i = blank(i, std::min(text.find(close, i), text.size()) + close.size());
    } else if (c == '"' ||
               (c == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      i = blank(i, end + 1);
    } else {
      if (c == '\n') line_start = true;
      if (!std::isspace(static_cast<unsigned char>(c))) line_start = false;
      ++i;
    }
  }
  return code;
}

inline bool opens_scope(std::string head) {
  head = std::regex_replace(head, std::regex(R"(template\s*<[^()]*>)"), "");
  if (std::regex_search(head, std::regex(R"(\b(namespace|extern)\b)"))) return true;
  return head.find('(') == std::string::npos &&
         std::regex_search(head, std::regex(R"(\b(class|struct|union|enum)\b)"));
}

inline std::vector<FunctionBody> scan_functions(const std::string& text) {
  const std::string code = blank_non_code(text);
  std::vector<FunctionBody> functions;
  std::vector<int> open_scopes;  // nesting depths at which a looked-into scope opened
  FunctionBody current;
  int depth = 0, body_depth = -1, line = 1, head_line = 1;
  std::string head;
  for (const char c : code) {
    if (c == '\n') ++line;
    const bool inside = body_depth >= 0;
    if (c == '{') {
      if (!inside && !opens_scope(head)) {
        body_depth = depth;
        current = {head, head_line, 0};
      }
      ++depth;
    } else if (c == '}') {
      --depth;
      if (inside && depth == body_depth) {
        body_depth = -1;
        current.num_lines = line - current.first_line + 1;
        const std::size_t assign = current.head.rfind('='), close = current.head.rfind(')');
        const bool initialiser =
            close == std::string::npos || (assign != std::string::npos && assign > close);
        if (!initialiser) functions.push_back(current);
      }
    }
    if (inside && body_depth >= 0) continue;
    if (c == '{' || c == '}' || c == ';') {
      head.clear();
    } else if (!head.empty() || !std::isspace(static_cast<unsigned char>(c))) {
      if (head.empty()) head_line = line;
      head += c;
    }
  }
  return functions;
}

}  // namespace tessera
