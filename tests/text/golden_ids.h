// expect_golden_ids: a tokenizer's ids of a folder's sample.txt, a text of many scripts, against those in its
// ids.safetensors, character by character what the tokenizers' own libraries give for it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/base/mapped_file.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

// One I32 tensor of a safetensors file: u64 length of a JSON header, the header, the data.
inline std::vector<std::int32_t> golden_ids(const std::filesystem::path& folder, const std::string& key) {
  const std::string file = read_file(folder / "ids.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto entry = nlohmann::json::parse(file.substr(8, header_bytes)).at(key);
  const std::size_t begin = entry.at("data_offsets")[0];
  const std::size_t end = entry.at("data_offsets")[1];
  std::vector<std::int32_t> ids((end - begin) / sizeof(std::int32_t));
  std::memcpy(ids.data(), file.data() + 8 + header_bytes + begin, end - begin);
  return ids;
}

inline void expect_golden_ids(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                              const std::string& key) {
  const std::string text = read_file(folder / "sample.txt");
  const std::vector<std::int32_t> expected = golden_ids(folder, key);
  ASSERT_FALSE(expected.empty());
  const std::unique_ptr<TextEncoder> encoder = tokenizer.make_encoder();
  for (const char* pass : {"fresh", "with a full memory"}) {
    std::vector<std::int32_t> ids;
    encoder->encode(text, ids);
    const auto [found, wanted] = std::mismatch(ids.begin(), ids.end(), expected.begin(), expected.end());
    EXPECT_TRUE(ids == expected) << key << ", " << pass << ": " << ids.size() << " ids, expected "
                                 << expected.size() << ", first difference at " << found - ids.begin();
  }
  EXPECT_TRUE(tokenizer.encode(text) == expected) << key;
}

}  // namespace tessera
