#include "tessera/text/bpe_vocabulary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/folder_lock.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/text/byte_alphabet.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
using IdsBySpelling = std::unordered_map<std::string_view, std::int32_t>;

constexpr std::string_view kMergesHeader = "#version: 0.2\n";

Json parse_vocab_json(const std::string& file, const std::string& text) {
  TS_CHECK(!text.empty(), "{}: the file is empty, expected a JSON object of token: id", file);
  std::size_t num_keys = 0;
  Json json;
  try {
    json = parse_json(text, [&](int, const std::string&) { ++num_keys; });
  } catch (const Json::exception& error) {
    fail("{}: not a JSON file: {}", file, error.what());
  }
  TS_CHECK(json.is_object(), "{}: found a JSON {}, expected an object of token: id", file, json.type_name());
  for (const auto& [spelling, id] : json.items()) {
    TS_CHECK(id.is_number_integer(), "{}: token \"{}\" has {}, expected an integer id", file, spelling,
             id.dump());
  }
  TS_CHECK(num_keys == json.size(), "{}: {} tokens are given more than once", file, num_keys - json.size());
  return json;
}

// The spellings by id.
std::vector<std::string> read_spellings(const std::filesystem::path& path) {
  const std::string file = path.string();
  const Json json = parse_vocab_json(file, read_file(path));
  std::vector<std::string> spellings(json.size());
  const auto size = static_cast<std::int64_t>(json.size());
  for (const auto& [spelling, value] : json.items()) {
    const auto id = value.get<std::int64_t>();
    TS_CHECK(!spelling.empty(), "{}: id {} has an empty token", file, id);
    TS_CHECK(id >= 0 && id < size,
             "{}: token \"{}\" has id {}, but the ids of {} tokens must be 0 to {} without a gap", file,
             spelling, id, size, size - 1);
    std::string& place = spellings[static_cast<std::size_t>(id)];
    TS_CHECK(place.empty(), "{}: id {} is given to both \"{}\" and \"{}\"", file, id, place, spelling);
    place = spelling;
  }
  return spellings;
}

BpeMerge parse_merge(const std::string& where, std::string_view line, const IdsBySpelling& ids) {
  const std::size_t space = line.find(' ');
  const bool two_parts = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                         line.find(' ', space + 1) == std::string_view::npos;
  TS_CHECK(two_parts, "{}: found \"{}\", expected two tokens with one space between", where, line);
  const auto id_of = [&](const std::string& spelling, const char* role) {
    const auto found = ids.find(spelling);
    TS_CHECK(found != ids.end(), "{}: merge \"{}\": its {} \"{}\" is not in vocab.json", where, line, role,
             spelling);
    return found->second;
  };
  const std::string left(line.substr(0, space));
  const std::string right(line.substr(space + 1));
  return {id_of(left, "left part"), id_of(right, "right part"), id_of(left + right, "result")};
}

std::vector<BpeMerge> read_merges(const std::filesystem::path& path, const IdsBySpelling& ids) {
  const std::string text = read_file(path);
  TS_CHECK(!text.empty(), "{}: the file is empty, expected merges, one per line", path.string());
  std::vector<BpeMerge> merges;
  std::unordered_map<std::uint64_t, int> line_of_pair;
  line_of_pair.reserve(ids.size());
  std::string_view rest = text;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("#version")) continue;
    const std::string where = fmt::format("{} line {}", path.string(), line_number);
    const BpeMerge merge = parse_merge(where, line, ids);
    const auto pair = static_cast<std::uint64_t>(merge.left) << 32 | static_cast<std::uint32_t>(merge.right);
    const auto [earlier, is_new] = line_of_pair.emplace(pair, line_number);
    TS_CHECK(is_new, "{}: merge \"{}\" is already on line {}", where, line, earlier->second);
    merges.push_back(merge);
  }
  return merges;
}

std::vector<bool> tokens_made_by_merges(std::size_t num_tokens, const std::vector<BpeMerge>& merges) {
  std::vector<bool> made(num_tokens);
  for (const BpeMerge& merge : merges) made[static_cast<std::size_t>(merge.result)] = true;
  return made;
}

// Spellings to bytes. A special token is spelled in plain UTF-8, any other in the byte alphabet.
std::vector<std::string> tokens_of_spellings(const std::filesystem::path& folder,
                                             const std::vector<std::string>& spellings,
                                             const std::vector<bool>& made_by_merge) {
  const std::string file = (folder / "vocab.json").string();
  std::array<bool, 256> has_byte{};
  std::vector<std::string> tokens(spellings.size());
  for (std::size_t id = 0; id < spellings.size(); ++id) {
    std::optional<std::string> bytes = unspell_bytes(spellings[id]);
    const bool is_byte = bytes && bytes->size() == 1;
    if (!made_by_merge[id] && !is_byte) {
      TS_CHECK(
          looks_special(spellings[id]),
          "{}: token \"{}\" (id {}) comes out of no merge and does not look special, like <s> or [MASK]: "
          "is merges.txt cut off?",
          file, spellings[id], id);
      tokens[id] = spellings[id];
      continue;
    }
    TS_CHECK(bytes, "{}: token \"{}\" (id {}) is not spelled in GPT-2's byte alphabet", file, spellings[id],
             id);
    if (is_byte) has_byte[static_cast<unsigned char>(bytes->front())] = true;
    tokens[id] = std::move(*bytes);
  }
  for (std::size_t byte = 0; byte < has_byte.size(); ++byte) {
    const auto character = static_cast<char>(byte);
    TS_CHECK(has_byte[byte], "{}: no token for byte 0x{:02x} (\"{}\"): not a byte-level vocabulary", file,
             byte, spell_bytes({&character, 1}));
  }
  return tokens;
}

}  // namespace

bool looks_special(std::string_view token) {
  const bool in_brackets = token.size() >= 3 && ((token.front() == '<' && token.back() == '>') ||
                                                 (token.front() == '[' && token.back() == ']'));
  return in_brackets || token.starts_with("madeupword");
}

BpeVocabulary load_bpe_vocabulary(const std::filesystem::path& folder) {
  const std::vector<std::string> spellings = read_spellings(folder / "vocab.json");
  IdsBySpelling ids;
  ids.reserve(spellings.size());
  for (std::size_t id = 0; id < spellings.size(); ++id)
    ids.emplace(spellings[id], static_cast<std::int32_t>(id));
  BpeVocabulary vocabulary;
  vocabulary.merges = read_merges(folder / "merges.txt", ids);
  vocabulary.tokens =
      tokens_of_spellings(folder, spellings, tokens_made_by_merges(spellings.size(), vocabulary.merges));
  return vocabulary;
}

void save_bpe_vocabulary(const BpeVocabulary& vocabulary, const std::filesystem::path& folder) {
  const CreatedFolder created(folder);
  const FolderLock lock(folder);  // files of two writers would look right together

  const std::vector<bool> made = tokens_made_by_merges(vocabulary.tokens.size(), vocabulary.merges);
  std::vector<std::string> spellings;
  std::string vocab_json = "{";
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    spellings.push_back(made[id] || token.size() == 1 ? spell_bytes(token) : token);
    vocab_json += fmt::format("{}{}:{}", id == 0 ? "" : ",", Json(spellings.back()).dump(), id);
  }
  vocab_json += "}";

  std::string merges_txt(kMergesHeader);
  for (const BpeMerge& merge : vocabulary.merges) {
    merges_txt += spellings[static_cast<std::size_t>(merge.left)] + ' ';
    merges_txt += spellings[static_cast<std::size_t>(merge.right)] + '\n';
  }
  AtomicFile vocab(folder / "vocab.json"), merges(folder / "merges.txt");
  vocab.write(vocab_json);
  merges.write(merges_txt);
  for (AtomicFile* const file : {&vocab, &merges}) file->flush();
  for (AtomicFile* const file : {&vocab, &merges}) file->commit();
}

}  // namespace tessera
