#include "tessera/models/json_config.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"

namespace tessera {

struct JsonConfig::Document {
  nlohmann::json root;

  // null if the key, or a part of its path, is missing
  const nlohmann::json* find(const std::string& key) const {
    const nlohmann::json* at = &root;
    std::size_t begin = 0;
    while (begin <= key.size()) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      const std::string part = key.substr(begin, end - begin);
      if (!at->is_object() || !at->contains(part)) return nullptr;
      at = &(*at)[part];
      begin = end + 1;
    }
    return at->is_null() ? nullptr : at;
  }
};

JsonConfig::JsonConfig(const std::string& text, std::string source)
    : document_(std::make_unique<Document>()), source_(std::move(source)) {
  try {
    document_->root = parse_json(text);
  } catch (const nlohmann::json::exception& e) {  // parse_error, or out_of_range of a number beyond double
    fail("{}: not a JSON file: {}", source_, e.what());
  }
  TS_CHECK(document_->root.is_object(), "{}: found a JSON {}, expected an object with the model's keys",
           source_, document_->root.type_name());
}

JsonConfig::~JsonConfig() = default;
JsonConfig::JsonConfig(JsonConfig&&) noexcept = default;

bool JsonConfig::has(const std::string& key) const {
  return document_->find(key) != nullptr;
}

std::int64_t JsonConfig::positive_integer(const std::string& key, std::int64_t max,
                                          std::optional<std::int64_t> fallback) const {
  const nlohmann::json* found = document_->find(key);
  if (!found && fallback) return *fallback;
  TS_CHECK(found, "{}: key '{}' is missing", source_, key);
  TS_CHECK(found->is_number_integer() && found->get<std::int64_t>() > 0,
           "{}: '{}' is {}, expected a positive integer", source_, key, found->dump());
  const std::int64_t value = found->get<std::int64_t>();
  TS_CHECK(value <= max, "{}: '{}' is {}, expected at most {}", source_, key, value, max);
  return value;
}

std::int64_t JsonConfig::integer(const std::string& key, std::int64_t fallback) const {
  const nlohmann::json* found = document_->find(key);
  if (!found) return fallback;
  TS_CHECK(found->is_number_integer(), "{}: '{}' is {}, expected an integer", source_, key, found->dump());
  return found->get<std::int64_t>();
}

double JsonConfig::number(const std::string& key, std::optional<double> fallback) const {
  const nlohmann::json* found = document_->find(key);
  if (!found && fallback) return *fallback;
  TS_CHECK(found, "{}: key '{}' is missing", source_, key);
  TS_CHECK(found->is_number(), "{}: '{}' is {}, expected a number", source_, key, found->dump());
  const auto value = found->get<double>();
  TS_CHECK(value >= 0 && value <= std::numeric_limits<float>::max(),
           "{}: '{}' is {}, expected a number from 0 on that fp32 holds", source_, key, found->dump());
  return value;
}

double JsonConfig::positive_number(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  TS_CHECK(value > 0, "{}: '{}' is {}, expected a number above 0", source_, key, value);
  return value;
}

double JsonConfig::rate(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  TS_CHECK(value < 1, "{}: '{}' is {}, expected a rate below 1", source_, key, value);
  return value;
}

bool JsonConfig::boolean(const std::string& key, bool fallback) const {
  const nlohmann::json* found = document_->find(key);
  if (!found) return fallback;
  TS_CHECK(found->is_boolean(), "{}: '{}' is {}, expected true or false", source_, key, found->dump());
  return found->get<bool>();
}

std::string JsonConfig::text(const std::string& key, std::optional<std::string> fallback) const {
  const nlohmann::json* found = document_->find(key);
  if (!found && fallback) return *fallback;
  TS_CHECK(found, "{}: key '{}' is missing", source_, key);
  TS_CHECK(found->is_string(), "{}: '{}' is {}, expected a text", source_, key, found->dump());
  return found->get<std::string>();
}

}  // namespace tessera
