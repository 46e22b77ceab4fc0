#include "tessera/data/text_blocks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "data/scratch_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// One id per byte, so that the blocks can be read.
EncodeFunction encode_bytes() {
  return [](std::string_view text, std::vector<std::int32_t>& ids) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  };
}

// run_clm's group_texts, a batch of texts at a time, except for a batch shorter than a block.
std::vector<std::string> naive_blocks(const std::vector<std::string>& texts, std::size_t block,
                                      std::size_t per_batch) {
  std::vector<std::string> blocks;
  for (std::size_t first = 0; first < texts.size(); first += per_batch) {
    std::string all;
    for (std::size_t i = first; i < std::min(first + per_batch, texts.size()); ++i) all += texts[i];
    for (std::size_t at = 0; at + block <= all.size(); at += block) blocks.push_back(all.substr(at, block));
  }
  return blocks;
}

std::vector<std::string> read_blocks(const fs::path& prefix) {
  const IndexedDataset corpus(prefix);
  std::vector<std::string> blocks;
  for (std::int64_t i = 0; i < corpus.num_sequences(); ++i) {
    blocks.emplace_back();
    for (const std::int32_t id : corpus.sequence(i)) blocks.back() += static_cast<char>(id);
  }
  return blocks;
}

class TextBlocksTest : public testing::Test {
 protected:
  TextBlocksTest() {
    std::mt19937_64 random(5);
    for (int i = 0; i < 3300; ++i)
      lines_.push_back(std::string(random() % 30, static_cast<char>('a' + i % 26)) + "\n");
    lines_.push_back("no newline at the end");
    std::string text;
    for (const std::string& line : lines_) text += line;
    put_file(folder_ / "a.txt", text);
    options_.block_size = 64;
    options_.vocab_size = 256;
    options_.tokenizer = "bytes";
  }

  TextBlockFiles ensure(const std::vector<fs::path>& files, int threads = 2) {
    ThreadPool pool(threads);
    return ensure_text_blocks(pool, files, folder_ / "cache", options_, [&] {
      ++num_encoders_;
      return encode_bytes();
    });
  }

  ScratchFolder folder_;
  std::vector<std::string> lines_;
  TextBlockOptions options_;
  int num_encoders_ = 0;
};

TEST_F(TextBlocksTest, GroupLinesAsRunClmDoes) {
  const std::vector<std::string> expected = naive_blocks(lines_, 64, 1000);
  const TextBlockFiles made = ensure({folder_ / "a.txt"});
  EXPECT_FALSE(made.reused);
  EXPECT_EQ(made.num_blocks, std::ssize(expected));
  EXPECT_EQ(read_blocks(made.prefix), expected);
  EXPECT_NE(made.message.find("from 3301 texts"), std::string::npos) << made.message;
  const std::string bytes = get_file(bin_path(made.prefix));
  fs::remove_all(folder_ / "cache");
  EXPECT_EQ(get_file(bin_path(ensure({folder_ / "a.txt"}, 5).prefix)), bytes);
}

TEST_F(TextBlocksTest, GroupJsonLinesAndSeveralFiles) {
  std::vector<std::string> texts = lines_;
  std::string json;
  for (int i = 0; i < 50; ++i) {
    texts.push_back("text \u00e9 number " + std::to_string(i));
    json += nlohmann::json{{"text", texts.back()}, {"id", i}}.dump() + "\n\n";
  }
  put_file(folder_ / "b.jsonl", json);
  const TextBlockFiles made = ensure({folder_ / "a.txt", folder_ / "b.jsonl"});
  EXPECT_EQ(read_blocks(made.prefix), naive_blocks(texts, 64, 1000));

  options_.keep_newlines = false;
  for (std::string& text : lines_) {
    if (text.ends_with('\n')) text.pop_back();
  }
  EXPECT_EQ(read_blocks(ensure({folder_ / "a.txt"}).prefix), naive_blocks(lines_, 64, 1000));
}

// Before a text without characters too: its ids are then that one alone.
TEST_F(TextBlocksTest, PutTheTokenThatBeginsTextsBeforeEach) {
  put_file(folder_ / "b.txt", "ab\n\nc\n");
  put_file(folder_ / "c.jsonl", "{\"text\": \"de\"}\n\n{\"text\": \"\"}\n");
  options_.block_size = 3;
  options_.keep_newlines = false;
  options_.begin_of_text = '^';
  EXPECT_EQ(read_blocks(ensure({folder_ / "b.txt", folder_ / "c.jsonl"}).prefix),
            (std::vector<std::string>{"^ab", "^^c", "^de"}));  // and ^ left over

  options_.block_size = 64;
  options_.keep_newlines = true;
  std::vector<std::string> texts = lines_;
  for (std::string& text : texts) text.insert(0, "^");
  EXPECT_EQ(read_blocks(ensure({folder_ / "a.txt"}).prefix), naive_blocks(texts, 64, 1000));
  options_.begin_of_text = 256;
  expect_error([&] { ensure({folder_ / "a.txt"}); }, "the tokenizer gave id 256");
}

// As Python opens a text, and with it datasets' load_dataset("text"), which run_clm reads through. In a JSON
// line they are white space.
TEST_F(TextBlocksTest, EndLinesAsPythonDoes) {
  put_file(folder_ / "b.txt", "one two\r\nthree\rfour\n\r\n\r\r\n\rfive\r\n\nsix\r");
  put_file(folder_ / "c.txt", "no newline\r\nat the end");
  put_file(folder_ / "d.jsonl", "{\"text\": \"se\\r\\nven\",\r \"n\": 7}\r\n\r\n{\"text\": \"eight\"}\r");
  const std::vector<fs::path> files = {folder_ / "b.txt", folder_ / "c.txt", folder_ / "d.jsonl"};
  const auto expect_all = [&](const std::string& expected) {
    options_.block_size = std::ssize(expected);
    EXPECT_EQ(read_blocks(ensure(files).prefix), std::vector<std::string>{expected});
  };
  options_.begin_of_text = '^';
  expect_all("^one two\n^three\n^four\n^\n^\n^\n^\n^five\n^\n^six\n^no newline\n^at the end^se\r\nven^eight");
  options_.keep_newlines = false;
  expect_all("^one two^three^four^^^^^five^^six^no newline^at the end^se\r\nven^eight");
}

// Blocks that were made when a text's "\r" was kept: nothing says whether it has one.
TEST_F(TextBlocksTest, AreMadeAgainWhereLinesEndedOtherwise) {
  const TextBlockFiles made = ensure({folder_ / "a.txt"});
  std::string description = get_file(made.prefix.string() + ".txt");
  const std::string ends = "lines end in \\n, \\r\\n or \\r; ";
  const std::size_t at = description.find(ends);
  ASSERT_NE(at, std::string::npos) << description;
  put_file(made.prefix.string() + ".txt", description.erase(at, ends.size()));
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
}

TEST_F(TextBlocksTest, AreUsedAgainUntilSomethingChanges) {
  const TextBlockFiles made = ensure({folder_ / "a.txt"});
  const int before = num_encoders_;
  const TextBlockFiles again = ensure({folder_ / "a.txt"});
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(num_encoders_, before);  // nothing was encoded
  EXPECT_EQ(again.prefix, made.prefix);
  EXPECT_EQ(again.num_blocks, made.num_blocks);
  EXPECT_NE(again.message.find("reusing"), std::string::npos) << again.message;
  EXPECT_NE(again.message.find(made.prefix.string()), std::string::npos) << again.message;

  fs::remove(idx_path(made.prefix));
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
  options_.tokenizer = "another";
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
  options_.block_size = 32;
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
  EXPECT_TRUE(ensure({folder_ / "a.txt"}).reused);
  options_.begin_of_text = 1;
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
  options_.begin_of_text = 2;
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
  EXPECT_TRUE(ensure({folder_ / "a.txt"}).reused);
  put_file(folder_ / "a.txt", std::string(100, 'x'));
  EXPECT_FALSE(ensure({folder_ / "a.txt"}).reused);
}

TEST_F(TextBlocksTest, FillBatchesWithoutATargetAtTheEndOfABlock) {
  const TextBlockFiles made = ensure({folder_ / "a.txt"});
  const auto corpus = std::make_shared<IndexedDataset>(made.prefix);
  const TextBlocks blocks(corpus, 64, 256, std::nullopt);
  Batch batch(3, 64);
  blocks.fill(made.num_blocks - 1, batch);
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto block = corpus->sequence((made.num_blocks - 1 + row) % made.num_blocks);
    const auto inputs = batch.inputs.begin() + row * 64, targets = batch.targets.begin() + row * 64;
    EXPECT_TRUE(std::equal(block.begin(), block.end(), inputs));
    EXPECT_TRUE(std::equal(block.begin() + 1, block.end(), targets));
    EXPECT_EQ(targets[63], kNotScored);
  }
  // Shuffled: every block once an epoch.
  const TextBlocks shuffled(corpus, 64, 256, 7);
  Batch epoch(made.num_blocks, 64);
  shuffled.fill(0, epoch);
  std::vector<std::vector<std::int32_t>> seen, all;
  for (std::int64_t i = 0; i < made.num_blocks; ++i) {
    seen.emplace_back(epoch.inputs.begin() + i * 64, epoch.inputs.begin() + (i + 1) * 64);
    all.push_back(corpus->sequence(i));
  }
  EXPECT_NE(seen, all);
  std::sort(seen.begin(), seen.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(seen, all);
}

TEST_F(TextBlocksTest, RefuseBadTexts) {
  put_file(folder_ / "bad.jsonl", "{\"text\": \"good\"}\n\n{\"txt\": \"bad\"}\n");
  expect_error([&] { ensure({folder_ / "bad.jsonl"}); }, "bad.jsonl:3", "no key \"text\"");
  put_file(folder_ / "short.txt", "short\n");
  expect_error([&] { ensure({folder_ / "short.txt"}); }, "6 tokens", "at least one block of 64");
  expect_error([&] { ensure({folder_ / "gone.txt"}); }, "gone.txt");
  options_.vocab_size = 100;
  expect_error([&] { ensure({folder_ / "a.txt"}); }, "a.txt", "its vocabulary has 100 ids");
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(TextBlocksTest, RefuseAnotherSizeOrVocabulary) {
  const auto corpus = std::make_shared<IndexedDataset>(ensure({folder_ / "a.txt"}).prefix);
  expect_error([&] { TextBlocks(corpus, 128, 256, 1); }, ".bin", "block 0 has 64 tokens, expected 128");
  Batch batch(1, 64);
  const TextBlocks blocks(corpus, 64, 50, std::nullopt);
  expect_error([&] { blocks.fill(0, batch); }, ".bin", "block 0", "vocabulary has 50 ids");
}

}  // namespace
}  // namespace tessera
