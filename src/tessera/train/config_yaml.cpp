#include "tessera/train/config_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

using Kind = ConfigValue::Kind;

bool lies_below(std::string_view path, std::string_view section) {
  return path.size() > section.size() && path.starts_with(section) && path[section.size()] == '.';
}

// The names directly below a section, "" being the top: for messages.
std::vector<std::string> names_below(const ConfigSchema& schema, std::string_view section) {
  std::vector<std::string> names;
  for (const ConfigKey& key : schema.keys()) {
    if (!section.empty() && !lies_below(key.path, section)) continue;
    const std::size_t start = section.empty() ? 0 : section.size() + 1;
    const std::string name = key.path.substr(start, key.path.find('.', start) - start);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool is_section(const ConfigSchema& schema, std::string_view path) {
  const auto below = [&](const ConfigKey& key) { return lies_below(key.path, path); };
  return std::any_of(schema.keys().begin(), schema.keys().end(), below);
}

[[noreturn]] void refuse_unknown(const ConfigSchema& schema, const std::string& path,
                                 const std::string& origin) {
  std::vector<std::string> candidates;
  for (const ConfigKey& key : schema.keys()) {
    candidates.push_back(key.path);
    for (std::size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1))
      candidates.push_back(key.path.substr(0, dot));
  }
  std::string hint = did_you_mean(path, candidates);
  if (hint.empty()) {
    std::string section = path.substr(0, path.rfind('.') == std::string::npos ? 0 : path.rfind('.'));
    if (!is_section(schema, section)) section.clear();
    hint = fmt::format("; the keys {} are {}", section.empty() ? "at the top" : "of '" + section + "'",
                       joined(names_below(schema, section), ", "));
  }
  fail("unknown key '{}' ({}){}", path, origin, hint);
}

void assign(const ConfigKey& key, const ConfigValue& value, const std::string& origin) {
  const std::string complaint = key.assign(value);
  TS_CHECK(complaint.empty(), "{}: {} ({})", key.path, complaint, origin);
}

std::string found_node(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a map of keys";
  return node.IsScalar() ? fmt::format("'{}'", node.Scalar()) : "nothing";
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

// Walks one YAML document in step with the schema.
class YamlReader {
 public:
  YamlReader(const ConfigSchema& schema, std::string_view text, const std::string& file)
      : schema_(schema), lines_(lines_of(text)), file_(file) {}

  void read_map(const YAML::Node& map, const std::string& section) {
    for (const auto& entry : map) {
      const std::string origin = fmt::format("{}:{}", file_, entry.first.Mark().line + 1);
      TS_CHECK(entry.first.IsScalar(), "{}: found {} as a key, expected a name", origin,
               found_node(entry.first));
      const std::string& name = entry.first.Scalar();
      const std::string path = section.empty() ? name : section + "." + name;
      TS_CHECK(seen_.insert(path).second, "duplicate key '{}' ({})", path, origin);
      read_entry(path, entry.second, origin);
    }
  }

 private:
  void read_entry(const std::string& path, const YAML::Node& node, const std::string& origin) {
    if (const ConfigKey* key = schema_.find(path)) {
      TS_CHECK(!node.IsMap(), "{}: found a map of keys, expected {} ({})", path, key->allowed, origin);
      return assign(*key, value_of(node, path, origin), origin);
    }
    if (!is_section(schema_, path)) refuse_unknown(schema_, path, origin);
    // A section whose keys are all commented out is a null node: nothing to set.
    if (node.IsNull()) return;
    TS_CHECK(node.IsMap(), "{}: found {}, expected a map of keys: {} ({})", path, found_node(node),
             joined(names_below(schema_, path), ", "), origin);
    read_map(node, path);
  }

  ConfigValue value_of(const YAML::Node& node, const std::string& path, const std::string& origin) const {
    if (node.IsScalar()) {
      check_quote(node, path, origin);
      return {Kind::text, {node.Scalar()}};
    }
    if (node.IsNull()) {
      // yaml-cpp does not say whether "null" was written or nothing was; the text at its place does.
      const bool written = text_at(node.Mark()).starts_with("null");
      return {Kind::null, written ? std::vector<std::string>{"null"} : std::vector<std::string>{}};
    }
    ConfigValue list{Kind::list, {}};
    for (const YAML::Node& item : node) {
      TS_CHECK(item.IsScalar(), "{}: found {} in the list, expected plain values ({})", path,
               found_node(item), origin);
      check_quote(item, path, origin);
      list.texts.push_back(item.Scalar());
    }
    return list;
  }

  // What is written there, to the end of the line.
  std::string_view text_at(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines_.size()) return {};
    const std::string_view line = lines_[static_cast<std::size_t>(mark.line)];
    return line.substr(std::min(line.size(), static_cast<std::size_t>(std::max(0, mark.column))));
  }

  // yaml-cpp closes a forgotten quote at the end of the file. No value here goes over several lines.
  void check_quote(const YAML::Node& node, const std::string& path, const std::string& origin) const {
    const std::string_view text = text_at(node.Mark());
    if (text.empty() || (text[0] != '"' && text[0] != '\'')) return;
    const char quote = text[0];
    for (std::size_t i = 1; i < text.size(); ++i) {
      const bool escapes = quote == '"' ? text[i] == '\\' : text.substr(i).starts_with("''");
      if (escapes) {
        ++i;
      } else if (text[i] == quote) {
        return;
      }
    }
    fail("{}: found {} without another on the same line, expected a closed quote ({})", path, quote, origin);
  }

  const ConfigSchema& schema_;
  std::vector<std::string_view> lines_;
  const std::string& file_;
  std::set<std::string> seen_;
};

// Refuses a second document in the text: another config, or keys indented less than those before them.
//
// YAML::Load would drop it without a word, and YAML::LoadAll does not end on texts such as
// " a: 1\n,b: 2": it finds empty documents without limit at the comma.
class SingleDocument : public YAML::EventHandler {
 public:
  explicit SingleDocument(const std::string& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    TS_CHECK(num_documents_++ == 0,
             "{}:{}: found a second document or wrong indentation, expected one map of keys", file_,
             mark.line + 1);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

 private:
  const std::string& file_;
  int num_documents_ = 0;
};

YAML::Node parse_document(const std::string& text, const std::string& file) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    SingleDocument events(file);
    while (parser.HandleNextDocument(events)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail("{}:{}: not YAML: {}", file, error.mark.line + 1, error.msg);
  }
}

}  // namespace

void load_yaml(const ConfigSchema& schema, std::string_view text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a Windows editor's byte order mark
  const YAML::Node root = parse_document(std::string(text), file);
  TS_CHECK(!root.IsNull(), "{}: found no keys, expected a YAML config", file);
  TS_CHECK(root.IsMap(), "{}:{}: found {}, expected a map of keys: {}", file, root.Mark().line + 1,
           found_node(root), joined(names_below(schema, ""), ", "));
  YamlReader(schema, text, file).read_map(root, "");
}

void apply_override(const ConfigSchema& schema, const std::string& assignment) {
  const std::string origin = "command line";
  const std::size_t equals = assignment.find('=');
  TS_CHECK(equals != std::string::npos && equals > 0, "found '{}' on the command line, expected key=value",
           assignment);
  const std::string path = assignment.substr(0, equals);
  const std::string written = assignment.substr(equals + 1);
  const ConfigKey* key = schema.find(path);
  if (!key) {
    TS_CHECK(!is_section(schema, path), "{}: found '{}', expected one of its keys: {}.{} ({})", path, written,
             path, joined(names_below(schema, path), ", " + path + "."), origin);
    refuse_unknown(schema, path, origin);
  }
  if (!key->is_list) return assign(*key, {Kind::text, {written}}, origin);
  if (written.starts_with('[') && written.ends_with(']')) {
    TS_CHECK(parse_document(written, path).IsSequence(), "{}: found '{}', expected one list ({})", path,
             written, origin);
    return load_yaml(schema, fmt::format("{}: {}", path, written), origin);
  }
  ConfigValue list{Kind::list, {}};
  for (std::size_t start = 0; start <= written.size() && !written.empty();) {
    const std::size_t comma = std::min(written.find(',', start), written.size());
    list.texts.push_back(written.substr(start, comma - start));
    start = comma + 1;
  }
  assign(*key, list, origin);
}

std::string to_yaml(const ConfigSchema& schema) {
  YAML::Node root(YAML::NodeType::Map);
  for (const ConfigKey& key : schema.keys()) {
    YAML::Node at = root;
    std::size_t start = 0;
    for (std::size_t dot; (dot = key.path.find('.', start)) != std::string::npos; start = dot + 1)
      at.reset(at[key.path.substr(start, dot - start)]);
    const ConfigValue value = key.current();
    const std::string name = key.path.substr(start);
    if (value.kind == Kind::list)
      at[name] = value.texts;
    else
      at[name] = value.texts.front();
  }
  return YAML::Dump(root) + "\n";
}

}  // namespace tessera
