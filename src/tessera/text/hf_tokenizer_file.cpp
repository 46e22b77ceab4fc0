#include "tessera/text/hf_tokenizer_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/text/byte_alphabet.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
using IdsByToken = std::unordered_map<std::string, std::int32_t>;

// One file while it is read: every refusal names it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path.string()) {
    try {
      root_ = parse_json(read_file(path));
    } catch (const Json::exception& error) {
      fail("{}: not a JSON file: {}", file_, error.what());
    }
    TS_CHECK(root_.is_object() && root_.contains("model") && root_["model"].is_object(),
             "{}: not a tokenizer.json: it has no object \"model\"", file_);
  }

  HfTokenizerFile read() try {
    check_steps();
    HfTokenizerFile out;
    const Json normalizer = root_.value("normalizer", Json());
    out.nfc = !normalizer.is_null();
    read_vocabulary(out);
    if (type_of("post_processor") == "TemplateProcessing") out.begin_of_text = read_template(out.vocabulary);
    return out;
  } catch (const Json::exception& error) {
    fail("{}: not a tokenizer.json of the expected form: {}", file_, error.what());
  }

 private:
  std::string type_of(const char* step) const {
    const Json value = root_.value(step, Json());
    if (value.is_null()) return "none";
    return value.is_object() ? value.value("type", "an object without type") : value.dump();
  }

  void check_type(const char* step, const std::vector<std::string>& expected) const {
    const std::string found = type_of(step);
    std::string names;
    for (const std::string& name : expected) names += (names.empty() ? "" : " or ") + name;
    TS_CHECK(std::ranges::find(expected, found) != expected.end(), "{}: {} is {}, expected {}", file_, step,
             found, names);
  }

  void check_value(const Json& object, const char* where, const char* key, const Json& expected) const {
    const Json found = object.value(key, expected);
    const bool empty = found.is_null() || found == "";  // prefixes and suffixes that are not there
    TS_CHECK(found == expected || (expected.is_null() && empty), "{}: {}.{} is {}, expected {}", file_, where,
             key, found.dump(), expected.dump());
  }

  void check_steps() const {
    check_type("model", {"BPE"});
    check_type("normalizer", {"none", "NFC"});
    check_type("pre_tokenizer", {"ByteLevel"});
    check_type("post_processor", {"none", "ByteLevel", "TemplateProcessing"});
    check_value(root_["pre_tokenizer"], "pre_tokenizer", "add_prefix_space", false);
    check_value(root_["pre_tokenizer"], "pre_tokenizer", "use_regex", true);
    const Json& model = root_["model"];
    for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
      check_value(model, "model", key, nullptr);
    for (const char* key : {"byte_fallback", "ignore_merges"}) check_value(model, "model", key, false);
  }

  // What becomes of one text: itself, or one token and itself. What stands behind it would be lost.
  std::optional<std::int32_t> read_template(const BpeVocabulary& vocabulary) const {
    const Json& processor = root_["post_processor"];
    const Json& single = processor.at("single");
    const bool begins = single.size() == 2 && single.at(0).contains("SpecialToken");
    const bool ends = !single.empty() && single.back().contains("Sequence");
    TS_CHECK(ends && (begins || single.size() == 1),
             "{}: post_processor.single is {}, expected a text and at most one token before it", file_,
             single.dump());
    if (!begins) return std::nullopt;
    const auto token = single.at(0).at("SpecialToken").at("id").get<std::string>();
    const Json& ids = processor.at("special_tokens").at(token).at("ids");
    TS_CHECK(ids.size() == 1, "{}: post_processor puts the ids {} before a text, expected one id", file_,
             ids.dump());
    const std::int32_t id = id_of(ids.at(0), token);
    TS_CHECK(id < std::ssize(vocabulary.tokens),
             "{}: post_processor puts id {} before a text, but there are {} tokens", file_, id,
             vocabulary.tokens.size());
    return id;
  }

  std::int32_t id_of(const Json& value, const std::string& token) const {
    TS_CHECK(value.is_number_unsigned() && std::in_range<std::int32_t>(value.get<std::uint64_t>()),
             "{}: token \"{}\" has id {}, expected an integer from 0 on", file_, token, value.dump());
    return value.get<std::int32_t>();
  }

  void read_added(HfTokenizerFile& out) const {
    for (const Json& token : root_.value("added_tokens", Json::array())) {
      HfTokenizerFile::AddedToken added;
      added.content = token.at("content").get<std::string>();
      added.id = id_of(token.at("id"), added.content);
      added.normalized = token.value("normalized", false);
      for (const char* key : {"single_word", "lstrip", "rstrip"})
        check_value(token, fmt::format("added token \"{}\"", added.content).c_str(), key, false);
      out.added.push_back(std::move(added));
    }
  }

  static std::pair<std::string, std::string> merge_parts(const Json& merge) {
    if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    return {text.substr(0, space), space == std::string::npos ? "" : text.substr(space + 1)};
  }

  std::vector<BpeMerge> read_merges(const IdsByToken& ids) const {
    std::vector<BpeMerge> merges;
    const auto id_of = [&](const std::string& spelling, const Json& merge) {
      const auto found = ids.find(spelling);
      TS_CHECK(found != ids.end(), "{}: merge {} ({}) needs the token \"{}\", which is not in the vocabulary",
               file_, merges.size(), merge.dump(), spelling);
      return found->second;
    };
    for (const Json& merge : root_["model"].at("merges")) {
      const auto [left, right] = merge_parts(merge);
      merges.push_back({id_of(left, merge), id_of(right, merge), id_of(left + right, merge)});
    }
    return merges;
  }

  void put(std::int64_t id, std::string token, std::vector<std::optional<std::string>>& tokens) const {
    TS_CHECK(id >= 0 && id < std::ssize(tokens),
             "{}: token \"{}\" has id {}, but the ids of {} tokens must be 0 to {} without a gap", file_,
             token, id, tokens.size(), tokens.size() - 1);
    tokens[static_cast<std::size_t>(id)] = std::move(token);
  }

  void read_vocabulary(HfTokenizerFile& out) const {
    read_added(out);
    IdsByToken ids;
    for (const auto& [spelling, id] : root_["model"].at("vocab").items()) ids[spelling] = id_of(id, spelling);
    out.vocabulary.merges = read_merges(ids);

    // An added token may also be in the vocabulary, and has its id then. Its text there may look like bytes:
    // "é" is byte 0xe9, and remains it, for other words are made of it.
    const auto outside = std::count_if(out.added.begin(), out.added.end(),
                                       [&](const auto& added) { return !ids.contains(added.content); });
    std::vector<std::optional<std::string>> tokens(ids.size() + static_cast<std::size_t>(outside));
    for (const auto& [spelling, id] : ids) put(id, unspell_bytes(spelling).value_or(spelling), tokens);
    for (auto& added : out.added) {
      const auto found = ids.find(added.content);
      if (found == ids.end()) {
        put(added.id, added.content, tokens);
      } else {
        added.id = found->second;
      }
    }
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      TS_CHECK(tokens[id].has_value(), "{}: no token has id {}, found {} tokens", file_, id, tokens.size());
      out.vocabulary.tokens.push_back(*tokens[id]);
    }
  }

  std::string file_;
  Json root_;
};

}  // namespace

HfTokenizerFile read_hf_tokenizer_file(const std::filesystem::path& path) {
  return Reader(path).read();
}

}  // namespace tessera
