#include "tessera/base/parse_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace tessera {
namespace {

constexpr const char* kText = R"({"b": [1, {"c": null}], "a": 2.5, "b": "again"})";

TEST(ParseJson, IsTheLibrarysParser) {
  EXPECT_EQ(parse_json(kText), nlohmann::json::parse(kText));
  EXPECT_EQ(parse_json(kText).dump(), R"({"a":2.5,"b":"again"})");
  EXPECT_EQ(parse_ordered_json(kText).dump(), R"({"b":"again","a":2.5})");
}

TEST(ParseJson, TellsEveryKeyWithItsDepth) {
  std::vector<std::pair<int, std::string>> keys;
  const auto json =
      parse_json(kText, [&](int depth, const std::string& key) { keys.emplace_back(depth, key); });
  EXPECT_EQ(json, nlohmann::json::parse(kText));
  const std::vector<std::pair<int, std::string>> expected{{1, "b"}, {3, "c"}, {1, "a"}, {1, "b"}};
  EXPECT_EQ(keys, expected);
}

// Whoever prints or copies such a value would run out of stack.
TEST(ParseJson, RefusesWhatIsNestedTooDeep) {
  const auto nested = [](std::size_t depth) {
    return "{\"[[\\\"[[\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(parse_json(nested(200)), nlohmann::json::parse(nested(200)));
  for (const std::size_t depth : {201, 300'000}) {
    EXPECT_THROW(parse_json(nested(depth)), nlohmann::json::parse_error);
    EXPECT_THROW(parse_ordered_json(nested(depth)), nlohmann::json::parse_error);
    EXPECT_THROW(parse_json(nested(depth), [](int, const std::string&) {}), nlohmann::json::parse_error);
  }
}

TEST(ParseJson, ThrowsWhereTheTextIsWrong) {
  for (const char* text : {"", "{", "[1, 2", R"({"a" 1})", "1 2"}) {
    EXPECT_THROW(parse_json(text), nlohmann::json::parse_error) << text;
    EXPECT_THROW(parse_ordered_json(text), nlohmann::json::parse_error) << text;
  }
  try {
    parse_json("[1, x]");
    ADD_FAILURE() << "no error";
  } catch (const nlohmann::json::parse_error& error) {
    EXPECT_EQ(error.byte, 5u);
  }
}

}  // namespace
}  // namespace tessera
