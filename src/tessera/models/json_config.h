// JsonConfig: reads the keys of a Hugging Face config.json with errors that name file, key, what was
// found and what was expected.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/size_limits.h"

namespace tessera {

class JsonConfig {
 public:
  // `source` is the file's name for messages.
  JsonConfig(const std::string& text, std::string source);
  ~JsonConfig();
  JsonConfig(JsonConfig&&) noexcept;

  // Without a fallback the key must be there and not null. Keys may be nested: "rope_parameters.rope_theta".
  std::int64_t positive_integer(const std::string& key, std::int64_t max,
                                std::optional<std::int64_t> fallback = {}) const;
  std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  // From 0 on, as all of a model's numbers are.
  double number(const std::string& key, std::optional<double> fallback = {}) const;
  double positive_number(const std::string& key, double fallback) const;
  double rate(const std::string& key, double fallback) const;  // of dropout: at least 0 and below 1
  bool boolean(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, std::optional<std::string> fallback = {}) const;
  bool has(const std::string& key) const;  // there, and not null

  const std::string& source() const { return source_; }

 private:
  struct Document;
  std::unique_ptr<Document> document_;
  std::string source_;
};

}  // namespace tessera
