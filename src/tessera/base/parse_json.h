// JSON from text. nlohmann's parser is a template that takes seconds to compile in every source that calls
// it; behind these functions it is compiled once. Used by whoever reads JSON, which makes its own messages of
// the exceptions: they are nlohmann's. What is nested more than 200 deep is refused.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera {

nlohmann::json parse_json(std::string_view text);
nlohmann::ordered_json parse_ordered_json(std::string_view text);  // objects keep the order of their keys

// Also calls key_seen(depth, key) for each key, 1 being the outermost object's. Of two equal keys in one
// object the last is kept in silence: only so can they be found.
nlohmann::json parse_json(std::string_view text,
                          const std::function<void(int depth, const std::string& key)>& key_seen);

}  // namespace tessera
