#include "tessera/base/parse_json.h"

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using Json = nlohmann::json;

}  // namespace

Json parse_json(std::string_view text) {
  return Json::parse(text);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

Json parse_json(std::string_view text, const std::function<void(int, const std::string&)>& key_seen) {
  return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key) key_seen(depth, parsed.get_ref<const std::string&>());
    return true;
  });
}

}  // namespace tessera
