// The ids of the one vocabulary that is small enough to lie here; those of large_vocabularies/ need what does
// not.
#include "text/golden_ids.h"

namespace tessera {
namespace {

TEST(GoldenIds, LlamaLike) {
  const std::filesystem::path folder = TESSERA_SOURCE_DIR "/tests/golden/tokenizers";
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder / "llama-like.model");
  expect_golden_ids(*tokenizer, folder, "llama-like");
  EXPECT_EQ(tokenizer->begin_of_text(), 1);
  EXPECT_EQ(tokenizer->end_of_document(), 2);
}

}  // namespace
}  // namespace tessera
