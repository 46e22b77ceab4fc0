#include "tessera/data/json_line.h"

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

constexpr std::size_t kExcerptBytes = 60;

// The start of a line for a message, without bytes that would upset a terminal.
std::string excerpt(std::string_view line) {
  std::string text(line.substr(0, kExcerptBytes));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return line.size() > kExcerptBytes ? text + "..." : text;
}

// The three numbers that Python writes and JSON does not know, as null.
std::string without_python_numbers(std::string_view line) {
  std::string text;
  bool in_string = false;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t size = 1;
    if (in_string && line[at] == '\\') size = 2;
    if (line[at] == '"') in_string = !in_string;
    const std::string_view rest = line.substr(at);
    std::string_view number;
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"}) {
      if (!in_string && rest.starts_with(name)) number = name;
    }
    text += number.empty() ? rest.substr(0, size) : "null";
    at += number.empty() ? size : number.size();
  }
  return text;
}

nlohmann::json parse_line(std::string_view line) {
  try {
    return parse_json(line);
  } catch (const nlohmann::json::parse_error&) {
    const std::string text = without_python_numbers(line);
    if (text == line) throw;
    return parse_json(text);
  }
}

std::string list_keys(const nlohmann::json& object) {
  std::string keys;
  for (const auto& item : object.items()) keys += (keys.empty() ? "\"" : ", \"") + item.key() + "\"";
  return keys.empty() ? "none" : keys;
}

}  // namespace

std::string json_line_text(std::string_view line, const std::string& key) {
  nlohmann::json value;
  try {
    value = parse_line(line);
  } catch (const nlohmann::json::parse_error& error) {
    fail("not valid JSON at byte {} of the line, found: {}", error.byte, excerpt(line));
  } catch (const nlohmann::json::exception&) {  // a number beyond double
    fail("not valid JSON, found: {}", excerpt(line));
  }
  TS_CHECK(value.is_object(), "found {}, expected an object with the key \"{}\": {}", value.type_name(), key,
           excerpt(line));
  const auto found = value.find(key);
  TS_CHECK(found != value.end(), "no key \"{}\", found the keys: {}", key, list_keys(value));
  TS_CHECK(found->is_string(), "key \"{}\": found {}, expected a string", key, found->type_name());
  return std::move(found->get_ref<std::string&>());
}

}  // namespace tessera
