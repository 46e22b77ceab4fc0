// Copies past the caches, at every alignment and around every length at which the loop changes.
#include "tessera/comm/local/stream_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace tessera::local {
namespace {

TEST(StreamCopy, CopiesThatAndNoMore) {
  std::vector<std::byte> from(1024);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (const std::int64_t bytes : {0, 1, 3, 63, 64, 65, 100, 127, 128, 129, 500}) {
    for (int to_offset = 0; to_offset < 64; ++to_offset) {
      for (const int from_offset : {0, 4, 13}) {
        std::vector<std::byte> to(1024, std::byte{0xee}), expected = to;
        for (std::int64_t i = 0; i < bytes; ++i) expected[to_offset + i] = from[from_offset + i];
        stream_copy(to.data() + to_offset, from.data() + from_offset, bytes);
        ASSERT_EQ(to, expected) << bytes << " bytes from " << from_offset << " to " << to_offset;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::local
