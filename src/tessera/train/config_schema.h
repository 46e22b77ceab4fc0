// ConfigSchema: the keys a YAML config may have, each tied to the field of a plain struct it fills.
//
// Declared in one function next to the struct, one line per key:
//
//   schema.integer("train.steps", &config.train.steps, "optimizer steps", {.min = 1});
//
// The values the fields hold when they are declared are the defaults. The schema points into the struct,
// so it lives no longer than the struct does. Declared by run_config; filled and written by config_yaml.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is refused
  bool below_max = false;  // max itself is refused
};

inline constexpr NumberRange kPositive{.min = 0, .above_min = true};

// A value as written, before it is known what its key holds. `null` is kept apart from text because
// YAML reads the word null as "no value", while it is also the name of a device.
struct ConfigValue {
  enum class Kind { text, list, null };
  Kind kind = Kind::text;
  std::vector<std::string> texts;  // one for text, "null" or nothing for null
};

struct ConfigKey {
  std::string path;  // "train.steps"
  std::string description;
  std::string allowed;  // "an integer, at least 1"
  bool is_list = false;
  ConfigValue default_value;
  std::function<std::string(const ConfigValue&)> assign;  // "" when taken, else "found .., expected .."
  std::function<ConfigValue()> current;
};

class ConfigSchema {
 public:
  void integer(std::string path, std::int64_t* field, std::string description, IntegerRange range = {});
  void number(std::string path, double* field, std::string description, NumberRange range = {});
  void boolean(std::string path, bool* field, std::string description);
  void text(std::string path, std::string* field, std::string description);
  void list(std::string path, std::vector<std::int64_t>* field, std::string description,
            IntegerRange each = {});
  void list(std::string path, std::vector<double>* field, std::string description, NumberRange each = {});
  void list(std::string path, std::vector<std::string>* field, std::string description);

  // The i-th name stands for the enum's i-th value.
  template <class Enum>
  void choice(std::string path, Enum* field, std::string description, std::vector<std::string> names) {
    add_choice(
        std::move(path), std::move(description), std::move(names),
        [field](std::size_t index) { *field = static_cast<Enum>(index); },
        [field] { return static_cast<std::size_t>(*field); });
  }

  const std::vector<ConfigKey>& keys() const { return keys_; }
  const ConfigKey* find(std::string_view path) const;  // null when there is no such key

 private:
  void add(ConfigKey key);
  void add_choice(std::string path, std::string description, std::vector<std::string> names,
                  std::function<void(std::size_t)> set, std::function<std::size_t()> get);

  std::vector<ConfigKey> keys_;
};

// Whether the key's field still holds the value it was declared with.
bool is_default(const ConfigKey& key);

// "a, b, c" for messages. (fmt::join of strings trips a false -Wstringop-overflow of g++ 12.)
std::string joined(const std::vector<std::string>& words, std::string_view separator);

// Every key with its default, description and what it allows, for --help.
std::string describe(const ConfigSchema& schema);

}  // namespace tessera
