// Broken files: each is refused with a message that names the file, what it holds and what was expected.
#include "tessera/checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/temporary_folder.h"
#include "tessera/checkpoint/safetensors.h"

namespace tessera {
namespace {

std::string file_bytes(const std::string& json, std::size_t data_bytes, std::int64_t length_error = 0) {
  const std::uint64_t length = json.size() + static_cast<std::uint64_t>(length_error);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json + std::string(data_bytes, '\1');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string file_with(const std::vector<std::string>& entries, std::size_t data_bytes) {
  std::string json;
  for (const std::string& text : entries) json.append(json.empty() ? "{" : ",").append(text);
  return file_bytes(json.append("}"), data_bytes);
}

void expect_refused(const std::string& bytes, std::vector<std::string> parts) {
  const TemporaryFolder folder;
  const auto file = folder.write("broken.safetensors", bytes);
  parts.push_back(file.string());
  SCOPED_TRACE(parts.front());
  expect_error([&] { SafetensorsReader reader(file); }, parts);
}

TEST(SafetensorsHeader, AcceptsASoundFile) {
  const TemporaryFolder folder;
  const std::vector<std::string> entries = {entry("b", "F32", "[2]", "[4,12]"),
                                            entry("a", "F32", "[]", "[0,4]")};
  const SafetensorsReader reader(folder.write("sound", file_with(entries, 12)));
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b"}));
}

TEST(SafetensorsHeader, RefusesFilesThatAreNotThereOrNotWhole) {
  expect_error([] { SafetensorsReader reader("/nowhere/model.safetensors"); },
               {"/nowhere/model.safetensors", "No such file"});
  expect_refused("", {"0 bytes", "at least 8"});
  expect_refused("\1\0\0", {"1 bytes", "at least 8"});
  const std::string sound = file_with({entry("a", "F32", "[2]", "[0,8]")}, 8);
  expect_refused(sound.substr(0, 30), {"should have 54 bytes", "only 22"});
  expect_refused(sound.substr(0, sound.size() - 1), {"\"a\"", "ends at byte 8", "holds 7"});
  expect_refused(file_bytes("{}", 0, 1), {"should have 3 bytes", "only 2"});
  expect_refused(std::string(64, '\xff'), {"18446744073709551615 bytes", "only 56"});
}

TEST(SafetensorsHeader, RefusesHeadersThatAreNotAnObjectOfTensors) {
  expect_refused(file_bytes("", 0), {"not JSON"});
  expect_refused(file_bytes("PK\3\4 zip", 0), {"not JSON"});
  expect_refused(file_bytes("{\"a\":", 0), {"not JSON"});
  expect_refused(file_bytes("{\"\xff\":1}", 0), {"not JSON", "UTF-8"});
  expect_refused(file_bytes("[1,2]", 0), {"a JSON array", "expected an object"});
  expect_refused(file_bytes(R"({"a":7})", 0), {"\"a\"", "found 7", "expected an object"});
  expect_refused(file_bytes(R"({"a":{"dtype":"F32","shape":[]}})", 4), {"\"a\"", "no \"data_offsets\""});
  expect_refused(file_bytes(R"({"__metadata__":{"step":7}})", 0),
                 {"__metadata__", "\"step\": 7", "a string"});
  expect_refused(file_bytes(R"({"__metadata__":"pt"})", 0), {"__metadata__", "\"pt\"", "an object"});
  expect_refused(file_with({entry("a", "F32", "[1]", "[0,4]"), entry("a", "F32", "[1]", "[4,8]")}, 8),
                 {"\"a\" twice"});
}

TEST(SafetensorsHeader, RefusesTensorsThatCannotBe) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_with({entry("a", dtype, shape, offsets)}, 8);
  };
  expect_refused(one("F33", "[2]", "[0,8]"), {"unknown dtype \"F33\"", "\"a\""});
  expect_refused(one("F32", "[3]", "[0,8]"), {"hold 8 bytes", "expected 12 for F32 [3]"});
  expect_refused(one("BF16", "[2]", "[0,8]"), {"hold 8 bytes", "expected 4 for BF16 [2]"});
  expect_refused(one("F32", "2", "[0,8]"), {"shape is 2", "a list"});
  expect_refused(one("F32", "[-2]", "[0,8]"), {"found -2", "from 0"});
  expect_refused(one("F32", "[2.0]", "[0,8]"), {"found 2.0", "an integer"});
  expect_refused(one("F32", "[1,1,1,1,1,2]", "[0,8]"), {"6 dims", "at most 5"});
  expect_refused(one("F32", "[4611686018427387904,4]", "[0,8]"),
                 {"[4611686018427387904,4]", "than any file"});
  expect_refused(one("F32", "[2]", "[0,18446744073709551615]"), {"found 18446744073709551615", "2^63-1"});
  expect_refused(one("F32", "[2]", "[8,0]"), {"[8,0]", "end before they begin"});
  expect_refused(one("F32", "[2]", "[0]"), {"[0]", "[begin,end]"});
}

TEST(SafetensorsHeader, RefusesTensorsThatDoNotFillTheFileExactly) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data_bytes) {
    return file_with({entry("a", "F32", "[2]", a), entry("b", "F32", "[2]", b)}, data_bytes);
  };
  expect_refused(two("[0,8]", "[8,16]", 12), {"\"b\"", "ends at byte 16", "holds 12"});
  expect_refused(two("[0,8]", "[4,12]", 12), {"\"b\"", "begins at byte 4", "overlaps", "ends at 8"});
  expect_refused(two("[0,8]", "[0,8]", 8), {"begins at byte 0", "overlaps"});
  expect_refused(two("[0,8]", "[12,20]", 20), {"\"b\"", "begins at byte 12, expected 8", "hole"});
  expect_refused(two("[4,12]", "[12,20]", 20), {"\"a\"", "begins at byte 4, expected 0", "hole"});
  expect_refused(two("[0,8]", "[8,16]", 20), {"end at byte 16", "holds 20", "hole"});
}

}  // namespace
}  // namespace tessera
