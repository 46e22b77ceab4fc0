#include "tessera/base/parse_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {
namespace {

using Json = nlohmann::json;

// Far more than anything that is read here has. Values are copied and printed by recursion.
constexpr int kMostNested = 200;

void check_depth(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
    } else if (text[at] == ']' || text[at] == '}') {
      --depth;
    } else if ((text[at] == '[' || text[at] == '{') && ++depth > kMostNested) {
      throw Json::parse_error::create(
          101, at + 1, "more than " + std::to_string(kMostNested) + " lists and objects inside each other",
          nullptr);
    }
  }
}

}  // namespace

Json parse_json(std::string_view text) {
  check_depth(text);
  return Json::parse(text);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  check_depth(text);
  return nlohmann::ordered_json::parse(text);
}

Json parse_json(std::string_view text, const std::function<void(int, const std::string&)>& key_seen) {
  check_depth(text);
  return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key) key_seen(depth, parsed.get_ref<const std::string&>());
    return true;
  });
}

}  // namespace tessera
