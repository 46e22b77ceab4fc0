#include "tessera/text/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tessera/base/error.h"
#include "tessera/text/bpe_trainer.h"
#include "tessera/text/byte_alphabet.h"
#include "text/random_text.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

class HfTokenizerTest : public testing::Test {
 protected:
  HfTokenizerTest() {
    std::mt19937_64 random(60);
    vocabulary_ = train_bpe(random_words(random, 2000), {.vocab_size = 400});
    Json vocab = Json::object();
    for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) vocab[spelling(id)] = id;
    Json merges = Json::array();
    for (const BpeMerge& merge : vocabulary_.merges) {
      merges.push_back(spelling(static_cast<std::size_t>(merge.left)) + " " +
                       spelling(static_cast<std::size_t>(merge.right)));
    }
    file_["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
    file_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    file_["normalizer"] = {{"type", "NFC"}};
    file_["added_tokens"] = {added("<|endoftext|>", 399, false), added("  ", 400, true),
                             added("   ", 401, true), added("e\u0301", 402, true)};
  }

  static Json added(const char* content, int id, bool normalized) {
    return {{"content", content}, {"id", id}, {"normalized", normalized}, {"special", !normalized}};
  }

  std::string spelling(std::size_t id) const {
    const std::string& token = vocabulary_.tokens[id];
    return token == "<|endoftext|>" ? token : spell_bytes(token);
  }

  std::filesystem::path path() const { return folder_.path() / "tokenizer.json"; }

  HfTokenizer load() const {
    std::ofstream(path()) << file_.dump();
    return HfTokenizer::load(path());
  }

  void expect_refused(const std::string& part) const {
    try {
      load();
      ADD_FAILURE() << "loaded; expected: " << part;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(message.find(path().string()), std::string::npos) << message;
    }
  }

  TemporaryFolder folder_;
  BpeVocabulary vocabulary_;
  Json file_;
};

using Ids = std::vector<std::int32_t>;

TEST_F(HfTokenizerTest, EncodesBetweenItsAddedTokens) {
  const HfTokenizer tokenizer = load();
  const BpeTokenizer plain(vocabulary_);
  const auto expected = [&](std::initializer_list<std::variant<const char*, int>> parts) {
    Ids ids;
    for (const auto& part : parts) {
      if (part.index() == 0) {
        plain.encode(std::get<0>(part), ids);
      } else {
        ids.push_back(std::get<1>(part));
      }
    }
    return ids;
  };
  EXPECT_EQ(tokenizer.vocab_size(), 403);
  EXPECT_EQ(tokenizer.encode("one two"), expected({"one two"}));
  EXPECT_EQ(tokenizer.encode("a<|endoftext|> b"), expected({"a", 399, " b"}));
  EXPECT_EQ(tokenizer.encode("a  b    c"), expected({"a", 400, "b", 401, " c"}));
  EXPECT_EQ(tokenizer.encode("x\n  y"), expected({"x\n", 400, "y"}));
  EXPECT_EQ(tokenizer.encode("cafe\u0301 caf\u00e9 o\u0308"), expected({"caf", 402, " caf", 402, " \u00f6"}));
  EXPECT_EQ(tokenizer.encode("bad \xff byte"), expected({"bad \ufffd byte"}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.end_of_document(), 399);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a  b<|endoftext|>c")), "a  b<|endoftext|>c");
  EXPECT_TRUE(tokenizer.encodes_parts_alone());
}

TEST_F(HfTokenizerTest, ReadsBothSpellingsOfMerges) {
  const HfTokenizer as_strings = load();
  for (Json& merge : file_["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  const HfTokenizer as_pairs = load();
  std::mt19937_64 random(61);
  const std::string text = random_words(random, 300);
  EXPECT_EQ(as_pairs.encode(text), as_strings.encode(text));
}

// Found in a text as they are written, and of the ids that the vocabulary has for the bytes they look like.
TEST_F(HfTokenizerTest, AnAddedTokenMayBeSpelledAsAByte) {
  const auto id_of = [&](const char* spelled) { return file_["model"]["vocab"].at(spelled).get<int>(); };
  const int e_acute = id_of("\u00e9"), space = id_of("\u0120");
  file_["added_tokens"] = {added("\u00e9", e_acute, false), added("\u0120", space, false)};
  const HfTokenizer tokenizer = load();
  const BpeTokenizer plain(vocabulary_);
  Ids expected;
  plain.encode("a", expected);
  expected.insert(expected.end(), {e_acute, space});
  plain.encode(" b", expected);
  EXPECT_EQ(tokenizer.encode("a\u00e9\u0120 b"), expected);
  EXPECT_EQ(tokenizer.text_of(space), " ");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a b")), "a b");
  // With another id than the vocabulary's, which the library warns of and does not use.
  file_["added_tokens"] = {added("\u00e9", 7, false)};
  EXPECT_EQ(load().encode("\u00e9"), Ids{e_acute});
  EXPECT_EQ(load().vocab_size(), 400);
}

TEST_F(HfTokenizerTest, NeedsNoTokenForBytesThatNoTextHas) {
  Json& vocab = file_["model"]["vocab"];
  file_["model"]["merges"] = Json::array();  // some of them need the byte that goes
  file_["added_tokens"] = Json::array();
  const auto replace = [&](const std::string& token, const std::string& by) {
    vocab[by] = vocab[token];
    vocab.erase(token);
  };
  replace(spell_bytes("\xff"), "no bytes\u4f60");
  EXPECT_EQ(load().vocab_size(), 400);
  replace(spell_bytes("a"), "none either\u4f60");
  expect_refused("the vocabulary has no token for byte 97");
}

TEST_F(HfTokenizerTest, AnAddedTokenWithASpaceForbidsCuts) {
  file_["added_tokens"].push_back(added("two words", 403, false));
  EXPECT_FALSE(load().encodes_parts_alone());
}

TEST_F(HfTokenizerTest, RefusesWhatItWouldNotDo) {
  const Json good = file_;
  const auto expect = [&](const char* pointer, const Json& value, const std::string& part) {
    file_ = good;
    file_[Json::json_pointer(pointer)] = value;
    expect_refused(part);
  };
  expect("/model/type", "Unigram", "model is Unigram, expected BPE");
  expect("/normalizer", {{"type", "Lowercase"}}, "normalizer is Lowercase, expected none or NFC");
  expect("/pre_tokenizer/type", "Metaspace", "pre_tokenizer is Metaspace, expected ByteLevel");
  expect("/pre_tokenizer/add_prefix_space", true, "pre_tokenizer.add_prefix_space is true, expected false");
  expect("/post_processor", {{"type", "BertProcessing"}},
         "post_processor is BertProcessing, expected none or ByteLevel or TemplateProcessing");
  expect("/model/byte_fallback", true, "model.byte_fallback is true");
  expect("/model/unk_token", "<unk>", "model.unk_token is \"<unk>\"");
  expect("/added_tokens/0/lstrip", true, "added token \"<|endoftext|>\".lstrip is true");
  expect("/added_tokens/3/id", 999, "has id 999");
  for (const Json& id : {Json(4294967366), Json(-1), Json(70.9), Json(true), Json(1e300)}) {
    expect("/added_tokens/3/id", id, "has id " + id.dump() + ", expected an integer from 0 on");
    expect("/model/vocab/a", id, "token \"a\" has id " + id.dump() + ", expected an integer from 0 on");
  }
  expect("/model/merges/0", "no such", "which is not in the vocabulary");
  expect("/model", nullptr, "it has no object \"model\"");
}

TEST_F(HfTokenizerTest, KnowsTheTokenThatATemplatePutsBeforeTexts) {
  EXPECT_EQ(load().begin_of_text(), std::nullopt);
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json token = {{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}};
  Json& processor = file_["post_processor"];
  processor = {
      {"type", "TemplateProcessing"},
      {"single", {text}},
      {"special_tokens",
       {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {399}}, {"tokens", {"<|endoftext|>"}}}}}}};
  EXPECT_EQ(load().begin_of_text(), std::nullopt);
  const Ids ids = load().encode("one two");
  processor["single"] = {token, text};
  EXPECT_EQ(load().begin_of_text(), 399);
  EXPECT_EQ(load().encode("one two"), ids);  // which has none

  for (const Json& single : {Json{text, token}, Json{token, text, token}, Json{token, token, text},
                             Json{token}, Json::array(), Json("A")}) {
    processor["single"] = single;
    expect_refused("expected a text and at most one token before it");
  }
  processor["single"] = {token, text};
  processor["special_tokens"]["<|endoftext|>"]["ids"] = {399, 1};
  expect_refused("puts the ids [399,1] before a text");
  processor["special_tokens"]["<|endoftext|>"]["ids"] = {403};
  expect_refused("puts id 403 before a text, but there are 403 tokens");
  processor["special_tokens"]["<|endoftext|>"]["ids"] = {4294967296};
  expect_refused("token \"<|endoftext|>\" has id 4294967296, expected an integer from 0 on");
  processor["special_tokens"] = Json::object();
  expect_refused("not a tokenizer.json of the expected form");
}

TEST_F(HfTokenizerTest, RefusesAFileThatIsNotJson) {
  std::ofstream(path()) << "#version: 0.2\n";
  EXPECT_THROW(HfTokenizer::load(path()), Error);
  std::ofstream(path()) << "[1, 2]";
  EXPECT_THROW(HfTokenizer::load(path()), Error);
}

}  // namespace
}  // namespace tessera
