#include "tessera/train/config_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/text/utf8.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

using Kind = ConfigValue::Kind;

constexpr const char* kText = "text";  // what a key of any text allows

std::string printed(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string printed(double value) {
  return fmt::format("{}", value);
}  // shortest text of the same bits
std::string printed(bool value) {
  return value ? "true" : "false";
}
std::string printed(const std::string& value) {
  return value;
}

std::string bounds(IntegerRange range) {
  std::vector<std::string> parts;
  if (range.min > IntegerRange{}.min) parts.push_back(fmt::format("at least {}", range.min));
  if (range.max < IntegerRange{}.max) parts.push_back(fmt::format("at most {}", range.max));
  return joined(parts, " and ");
}

std::string bounds(NumberRange range) {
  std::vector<std::string> parts;
  if (std::isfinite(range.min))
    parts.push_back(fmt::format("{} {}", range.above_min ? "above" : "at least", range.min));
  if (std::isfinite(range.max))
    parts.push_back(fmt::format("{} {}", range.below_max ? "below" : "at most", range.max));
  return joined(parts, " and ");
}

std::string with_bounds(std::string kind, const std::string& limits) {
  return limits.empty() ? kind : kind + ", " + limits;
}

// from_chars takes no leading '+', no spaces and no words, which is what a config should hold.
template <class Number>
std::errc parse_number(const std::string& text, Number* value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value);
  return result.ptr == end ? result.ec : std::errc::invalid_argument;
}

// parse_item: fills *value from the text, or returns the complaint "found .., expected ..".
std::string parse_item(const std::string& text, IntegerRange range, std::int64_t* value) {
  std::int64_t parsed = 0;
  const std::errc error = parse_number(text, &parsed);
  if (error == std::errc::result_out_of_range) {
    return text.starts_with('-') ? fmt::format("found {}, expected at least {}", text, range.min)
                                 : fmt::format("found {}, expected at most {}", text, range.max);
  }
  if (error != std::errc()) return fmt::format("found '{}', expected an integer", text);
  if (parsed < range.min || parsed > range.max)
    return fmt::format("found {}, expected {}", text, bounds(range));
  *value = parsed;
  return "";
}

std::string parse_item(const std::string& text, NumberRange range, double* value) {
  double parsed = 0;
  const std::errc error = parse_number(text, &parsed);
  const bool beyond = error == std::errc::result_out_of_range;
  if (beyond) parsed = std::strtod(text.c_str(), nullptr);  // infinite or zero: from_chars does not say which
  if (!beyond && (error != std::errc() || !std::isfinite(parsed)))
    return fmt::format("found '{}', expected a number", text);
  if ((beyond || parsed != 0) && static_cast<float>(parsed) == 0)
    return fmt::format("found {}, expected a number that fp32 holds", text);
  const bool too_low = range.above_min ? parsed <= range.min : parsed < range.min;
  const bool too_high = range.below_max ? parsed >= range.max : parsed > range.max;
  if (too_low || too_high) return fmt::format("found {}, expected {}", text, bounds(range));
  const float largest = std::numeric_limits<float>::max();
  if (std::abs(parsed) > largest)
    return fmt::format("found {}, expected a number that fp32 holds: at most {} in size", text, largest);
  *value = parsed;
  return "";
}

struct AnyValue {};  // the range of text and booleans

std::string parse_item(const std::string& text, AnyValue, bool* value) {
  if (text != "true" && text != "false") return fmt::format("found '{}', expected true or false", text);
  *value = text == "true";
  return "";
}

// Checkpoints keep the config as JSON, which is UTF-8.
std::string parse_item(const std::string& text, AnyValue, std::string* value) {
  std::string repaired;
  if (well_formed(text, repaired) != text) return fmt::format("found '{}', expected UTF-8", text);
  // A name that holds one cannot be typed again, and one with a zero is another name for the system.
  const auto control = std::ranges::find_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control != text.end()) {
    return fmt::format("found the control character 0x{:02x} behind '{}', expected text without any",
                       static_cast<unsigned char>(*control), std::string(text.begin(), control));
  }
  *value = text;
  return "";
}

std::string found_text(const ConfigValue& value) {
  if (value.kind == Kind::list) return "a list";
  if (value.kind == Kind::null) return value.texts.empty() ? "nothing" : value.texts.front();
  return fmt::format("'{}'", value.texts.front());
}

template <class T, class Range>
ConfigKey scalar_key(std::string path, T* field, std::string description, std::string kind, Range range) {
  ConfigKey key;
  key.path = std::move(path);
  key.description = std::move(description);
  key.allowed = kind;
  if constexpr (!std::is_same_v<Range, AnyValue>) key.allowed = with_bounds(kind, bounds(range));
  key.assign = [field, range, allowed = key.allowed](const ConfigValue& value) -> std::string {
    if (value.kind != Kind::text) return fmt::format("found {}, expected {}", found_text(value), allowed);
    return parse_item(value.texts.front(), range, field);
  };
  key.current = [field] { return ConfigValue{Kind::text, {printed(*field)}}; };
  return key;
}

template <class T, class Range>
ConfigKey list_key(std::string path, std::vector<T>* field, std::string description, std::string kind,
                   Range range) {
  ConfigKey key;
  key.path = std::move(path);
  key.description = std::move(description);
  key.is_list = true;
  key.allowed = "a list of " + kind;
  if constexpr (!std::is_same_v<Range, AnyValue>) key.allowed = with_bounds(key.allowed, bounds(range));
  key.assign = [field, range, allowed = key.allowed](const ConfigValue& value) -> std::string {
    if (value.kind != Kind::list) return fmt::format("found {}, expected {}", found_text(value), allowed);
    std::vector<T> items(value.texts.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::string complaint = parse_item(value.texts[i], range, &items[i]);
      if (std::is_same_v<T, std::string> && value.texts[i].empty())
        complaint = "found nothing, expected text";
      if (!complaint.empty()) return fmt::format("item {}: {}", i, complaint);
    }
    *field = std::move(items);
    return "";
  };
  key.current = [field] {
    ConfigValue value{Kind::list, {}};
    for (const T& item : *field) value.texts.push_back(printed(item));
    return value;
  };
  return key;
}

std::string value_text(const ConfigValue& value) {
  if (value.kind == Kind::list) return fmt::format("[{}]", joined(value.texts, ", "));
  return value.texts.front().empty() ? "\"\"" : value.texts.front();
}

}  // namespace

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text.append(i == 0 ? "" : separator).append(words[i]);
  return text;
}

const ConfigKey* ConfigSchema::find(std::string_view path) const {
  for (const ConfigKey& key : keys_)
    if (key.path == path) return &key;
  return nullptr;
}

void ConfigSchema::add(ConfigKey key) {
  TS_ASSERT(!find(key.path));
  key.default_value = key.current();
  keys_.push_back(std::move(key));
}

void ConfigSchema::integer(std::string path, std::int64_t* field, std::string description,
                           IntegerRange range) {
  add(scalar_key(std::move(path), field, std::move(description), "an integer", range));
}

void ConfigSchema::number(std::string path, double* field, std::string description, NumberRange range) {
  add(scalar_key(std::move(path), field, std::move(description), "a number", range));
}

void ConfigSchema::boolean(std::string path, bool* field, std::string description) {
  add(scalar_key(std::move(path), field, std::move(description), "true or false", AnyValue{}));
}

void ConfigSchema::text(std::string path, std::string* field, std::string description) {
  add(scalar_key(std::move(path), field, std::move(description), kText, AnyValue{}));
}

void ConfigSchema::list(std::string path, std::vector<std::int64_t>* field, std::string description,
                        IntegerRange each) {
  add(list_key(std::move(path), field, std::move(description), "integers", each));
}

void ConfigSchema::list(std::string path, std::vector<double>* field, std::string description,
                        NumberRange each) {
  add(list_key(std::move(path), field, std::move(description), "numbers", each));
}

void ConfigSchema::list(std::string path, std::vector<std::string>* field, std::string description) {
  add(list_key(std::move(path), field, std::move(description), "texts", AnyValue{}));
}

void ConfigSchema::add_choice(std::string path, std::string description, std::vector<std::string> names,
                              std::function<void(std::size_t)> set, std::function<std::size_t()> get) {
  ConfigKey key;
  key.path = std::move(path);
  key.description = std::move(description);
  key.allowed = joined(names, " | ");
  key.assign = [names, set](const ConfigValue& value) -> std::string {
    const bool is_name = value.kind != Kind::list && !value.texts.empty();
    const auto match = is_name ? std::find(names.begin(), names.end(), value.texts.front()) : names.end();
    if (match == names.end()) {
      const std::string hint = is_name ? did_you_mean(value.texts.front(), names) : "";
      return fmt::format("found {}, expected {}{}", found_text(value), joined(names, " | "), hint);
    }
    set(static_cast<std::size_t>(match - names.begin()));
    return "";
  };
  key.current = [names, get] { return ConfigValue{Kind::text, {names.at(get())}}; };
  add(std::move(key));
}

bool is_default(const ConfigKey& key) {
  const ConfigValue value = key.current();
  return value.kind == key.default_value.kind && value.texts == key.default_value.texts;
}

std::string describe(const ConfigSchema& schema) {
  std::size_t path_width = 0, default_width = 0;
  for (const ConfigKey& key : schema.keys()) {
    path_width = std::max(path_width, key.path.size());
    default_width = std::max(default_width, value_text(key.default_value).size());
  }
  std::string text, section;
  for (const ConfigKey& key : schema.keys()) {
    const std::string its_section = key.path.substr(0, key.path.find('.') + 1);
    if (!text.empty() && its_section != section) text += "\n";
    section = its_section;
    text += fmt::format("  {:<{}}  {:<{}}  {}", key.path, path_width, value_text(key.default_value),
                        default_width, key.description);
    text += key.allowed == kText ? "\n" : fmt::format(" ({})\n", key.allowed);
  }
  return text;
}

}  // namespace tessera
