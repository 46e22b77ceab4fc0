#include "tessera/text/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/text/sentencepiece_words.h"
#include "text/random_text.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

// A small model of the library's own training, with byte fallback as Llama's has.
class SentencepieceTokenizerTest : public testing::Test {
 protected:
  SentencepieceTokenizerTest() {
    std::mt19937_64 random(70);
    std::ofstream text(folder_.path() / "text");
    for (int line = 0; line < 200; ++line) text << random_words(random, 12) << "  two  spaces \n";
    text.close();
    path_ = train("small", kLikeLlama);
  }

  std::filesystem::path train(const std::string& name, const std::string& options) const {
    const std::string prefix = (folder_.path() / name).string();
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--vocab_size=400 --minloglevel=2 --input=" + (folder_.path() / "text").string() +
        " --model_prefix=" + prefix + " " + options);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return prefix + ".model";
  }

  static std::string random_spaces(std::mt19937_64& random) {
    std::string text;
    for (std::size_t i = 0; i < random() % 6; ++i)
      text += std::array{" ", "  ", "\n", "\t", "\u2581", " \u2581 ", "x", "\u3000"}[random() % 8];
    return text;
  }

  static constexpr const char* kLikeLlama =
      "--model_type=bpe --byte_fallback=true --normalization_rule_name=identity "
      "--remove_extra_whitespaces=false";

  TemporaryFolder folder_;
  std::filesystem::path path_;
};

// Both where words are encoded alone and where the model does not allow it.
TEST_F(SentencepieceTokenizerTest, GivesTheLibrarysIds) {
  const std::string bpe = "--model_type=bpe --byte_fallback=true ",
                    identity = "--normalization_rule_name=identity ";
  const std::string keep = "--remove_extra_whitespaces=false ";
  const std::vector<std::pair<std::string, bool>> models = {
      {kLikeLlama, true},
      {bpe, false},
      {bpe + identity, false},
      {bpe + keep, false},
      {bpe + identity + keep + "--add_dummy_prefix=false", false},
      {bpe + identity + keep + "--treat_whitespace_as_suffix=true", false},
      {bpe + identity + keep + "--split_by_whitespace=false", false},
      {bpe + identity + keep + "--user_defined_symbols=a\u2581b", false},
      {bpe + identity + keep + "--user_defined_symbols=ab", true},  // words, but the library's merges
      {"--model_type=bpe " + identity + keep, false},
      {"--model_type=unigram --byte_fallback=true " + identity + keep, false}};
  std::mt19937_64 random(71);
  int number = 0;
  for (const auto& [options, by_words] : models) {
    const std::filesystem::path path = train("m" + std::to_string(number++), options);
    const SentencepieceTokenizer tokenizer(path);
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.Load(path.string()).ok());
    EXPECT_EQ(sentencepiece_words_stand_alone(read_file(path), library), by_words) << options;
    for (int i = 0; i < 40; ++i) {
      const std::string text = random_spaces(random) + random_words(random, 30) + random_spaces(random) +
                               random_hard_text(random, 20) + "a b" + random_spaces(random);
      ASSERT_EQ(tokenizer.encode(text), library.EncodeAsIds(text)) << options << testing::PrintToString(text);
    }
  }
}

// Runs of two letters, where many pieces can be made in several ways at overlapping places.
TEST_F(SentencepieceTokenizerTest, MergesRunsAsTheLibraryDoes) {
  std::mt19937_64 random(72);
  const auto run_of_letters = [&](std::size_t most) {
    std::string word;
    for (std::size_t size = 1 + random() % most; word.size() < size;)
      word.append(1 + random() % 5, random() % 3 == 0 ? 'b' : 'a');
    return word;
  };
  {
    std::ofstream text(folder_.path() / "text");
    for (int i = 0; i < 2000; ++i) text << run_of_letters(20) << (i % 9 == 0 ? "\n" : " ");
  }
  const std::filesystem::path path = train("runs", std::string(kLikeLlama) + " --hard_vocab_limit=false");
  const SentencepieceTokenizer tokenizer(path);
  ASSERT_TRUE(SentencepieceMerges::of_model(read_file(path)).has_value());
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(path.string()).ok());
  const std::unique_ptr<TextEncoder> encoder = tokenizer.make_encoder();
  for (int i = 0; i < 2000; ++i) {
    const std::string text =
        run_of_letters(60) + " " + run_of_letters(100) + (i % 3 == 0 ? "\xff" : "\u00e9");
    std::vector<std::int32_t> ids;
    encoder->encode(text, ids);
    ASSERT_EQ(ids, library.EncodeAsIds(text)) << testing::PrintToString(text);
  }
}

TEST_F(SentencepieceTokenizerTest, NamesItsSpecialPieces) {
  const SentencepieceTokenizer tokenizer(path_);
  EXPECT_EQ(tokenizer.vocab_size(), 400);
  EXPECT_EQ(tokenizer.begin_of_text(), 1);
  EXPECT_NE(tokenizer.encode("a").front(), 1);  // no id is added
  EXPECT_EQ(tokenizer.end_of_document(), 2);
  EXPECT_EQ(tokenizer.id_of("</s>"), 2);
  EXPECT_EQ(tokenizer.id_of("no such piece"), std::nullopt);
  EXPECT_FALSE(tokenizer.encodes_parts_alone());
}

TEST_F(SentencepieceTokenizerTest, AModelMayHaveNothingThatBeginsTexts) {
  const std::string options = kLikeLlama;
  const SentencepieceTokenizer like_t5(
      train("t5", options + " --bos_id=-1 --pad_id=0 --eos_id=1 --unk_id=2"));
  EXPECT_EQ(like_t5.begin_of_text(), std::nullopt);
  EXPECT_EQ(like_t5.end_of_document(), 1);
  // <s> as a word that texts may hold.
  const SentencepieceTokenizer plain(
      train("plain", options + " --bos_id=-1 --eos_id=1 --user_defined_symbols=<s>"));
  EXPECT_TRUE(plain.id_of("<s>").has_value());
  EXPECT_EQ(plain.begin_of_text(), std::nullopt);
  // One whose program is told not to.
  std::ofstream(folder_.path() / "tokenizer_config.json") << R"({"add_bos_token": false})";
  EXPECT_EQ(SentencepieceTokenizer(path_).begin_of_text(), std::nullopt);
}

// transformers would put </s> behind every text of a tokenizer so set. Ids of texts alone are none of that.
TEST_F(SentencepieceTokenizerTest, RefusesToLoseWhatStandsBehindAText) {
  const std::filesystem::path config = folder_.path() / "tokenizer_config.json";
  std::ofstream(config) << R"({"add_eos_token": false, "add_bos_token": null})";
  EXPECT_EQ(SentencepieceTokenizer(path_).begin_of_text(), 1);
  for (const char* settings :
       {R"({"add_eos_token": true})", R"({"add_bos_token": false, "add_eos_token": true})"}) {
    std::ofstream(config) << settings;
    const SentencepieceTokenizer tokenizer(path_);
    EXPECT_FALSE(tokenizer.encode("a").empty());
    try {
      tokenizer.begin_of_text();
      ADD_FAILURE() << settings;
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what()).find(config.string() + ": found add_eos_token: true, expected false"),
          std::string::npos)
          << error.what();
    }
  }
}

TEST_F(SentencepieceTokenizerTest, DecodesWhatItEncodes) {
  const SentencepieceTokenizer tokenizer(path_);
  const std::string text = "some words \u4f60\u00e9 here";
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  std::string one_by_one;
  for (const std::int32_t id : ids) one_by_one += tokenizer.text_of(id);
  EXPECT_EQ(one_by_one, " " + text);
  EXPECT_EQ(tokenizer.text_of(2), "");
  EXPECT_THROW(tokenizer.decode(std::vector<std::int32_t>{400}), Error);
}

TEST_F(SentencepieceTokenizerTest, RefusesWhatIsNoModel) {
  std::ofstream(folder_.path() / "bad.model") << "not a protobuf";
  std::ofstream(folder_.path() / "empty.model");
  for (const char* name : {"bad.model", "empty.model"}) {
    try {
      const SentencepieceTokenizer tokenizer(folder_.path() / name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("SentencePiece model"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera
