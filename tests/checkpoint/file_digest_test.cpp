#include "tessera/checkpoint/file_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tessera {
namespace {

// The answers of the xxh128sum program for the same bytes.
TEST(FileDigest, IsWhatXxh128sumPrints) {
  EXPECT_EQ(digest_of({}).xxh3_128, "99aa06d3014798d86001c324468d497f");
  const std::string_view abc = "abc";
  EXPECT_EQ(digest_of(std::as_bytes(std::span(abc))), (FileDigest{3, "06b05ab6733a618578af5f94892f3950"}));
  std::vector<unsigned char> bytes(100000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i % 251);
  EXPECT_EQ(digest_of(std::as_bytes(std::span(bytes))).xxh3_128, "54182c58bbb1337c42c23aeead96750d");
}

TEST(FileDigest, PiecesOfAnySizeGiveTheSameDigest) {
  std::vector<std::byte> bytes(10007);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i % 256);
  for (const std::size_t piece : {1, 7, 255, 4096, 20000}) {
    DigestStream stream;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      stream.update(std::span<const std::byte>(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(stream.finish(), digest_of(bytes));
  }
}

}  // namespace
}  // namespace tessera
