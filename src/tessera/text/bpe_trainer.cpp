#include "tessera/text/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/text/byte_alphabet.h"
#include "tessera/text/pretokenize.h"

namespace tessera {
namespace {

constexpr int kNumBytes = 256;

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

struct Pair {
  std::int32_t left = 0;
  std::int32_t right = 0;
  auto operator<=>(const Pair&) const = default;
};

struct PairHash {
  std::size_t operator()(Pair pair) const {
    const auto bits = static_cast<std::uint64_t>(pair.left) << 32 | static_cast<std::uint32_t>(pair.right);
    return bits * 0x9e3779b97f4a7c15u >> 20;
  }
};

struct PairState {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // all that hold the pair, maybe also some that held it
};

struct Candidate {
  std::int64_t count;  // when it was pushed; the pair's own count is the truth
  Pair pair;
};

struct WorseCandidate {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.count, b.pair) < std::tie(b.count, a.pair);
  }
};

// The state between merges. Counts are kept up to date in place, word by word, instead of counted anew: a
// merge touches only the words that hold its pair.
class Trainer {
 public:
  explicit Trainer(const WordCounts& counts);

  std::int64_t best_count();  // 0: no pair is left
  void merge_best();          // after best_count() > 0
  int num_tokens() const { return static_cast<int>(vocabulary_.tokens.size()); }
  BpeVocabulary take() { return std::move(vocabulary_); }

 private:
  void merge_in_word(Pair pair, std::int32_t result, std::uint32_t word_index);
  void add_to_count(Pair pair, std::int64_t change, std::uint32_t word_index);

  std::vector<Word> words_;
  std::unordered_map<Pair, PairState, PairHash> pairs_;
  std::priority_queue<Candidate, std::vector<Candidate>, WorseCandidate> candidates_;
  std::vector<Pair> grown_;  // pairs whose count this merge raised
  BpeVocabulary vocabulary_;
};

Trainer::Trainer(const WordCounts& counts) {
  std::array<std::int32_t, kNumBytes> id_of_byte{};
  for (const unsigned char byte : bytes_in_alphabet_order()) {
    id_of_byte[byte] = num_tokens();
    vocabulary_.tokens.emplace_back(1, static_cast<char>(byte));
  }
  words_.reserve(counts.size());
  for (const auto& [text, count] : counts) {
    Word word{.ids = {}, .count = count};
    for (const char byte : text) word.ids.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
    words_.push_back(std::move(word));
  }
  for (std::uint32_t w = 0; w < words_.size(); ++w) {
    const Word& word = words_[w];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      add_to_count({word.ids[i], word.ids[i + 1]}, word.count, w);
    }
  }
  for (const auto& [pair, state] : pairs_) candidates_.push({state.count, pair});
}

std::int64_t Trainer::best_count() {
  while (!candidates_.empty()) {
    const Candidate best = candidates_.top();
    const auto found = pairs_.find(best.pair);
    const std::int64_t count = found == pairs_.end() ? 0 : found->second.count;
    if (count == best.count && count > 0) return count;
    candidates_.pop();
    // A count that rose was pushed when it rose; one that fell is put where it belongs only now.
    if (count > 0 && count < best.count) candidates_.push({count, best.pair});
  }
  return 0;
}

void Trainer::merge_best() {
  const Pair pair = candidates_.top().pair;
  candidates_.pop();
  // The bytes are new: a stretch of text between two borders of tokens is cut the same way wherever it
  // stands, so the first merge that makes these bytes has taken all their places.
  const std::int32_t result = num_tokens();
  auto& tokens = vocabulary_.tokens;
  tokens.push_back(tokens[static_cast<std::size_t>(pair.left)] +
                   tokens[static_cast<std::size_t>(pair.right)]);
  vocabulary_.merges.push_back({pair.left, pair.right, result});
  const PairState state = std::move(pairs_.extract(pair).mapped());
  grown_.clear();
  for (const std::uint32_t word_index : state.words) merge_in_word(pair, result, word_index);
  pairs_.erase(pair);  // "aaa" has lowered the count of (a, a) while it was merged, and so made it anew

  std::sort(grown_.begin(), grown_.end());
  grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
  for (const Pair grown : grown_) candidates_.push({pairs_[grown].count, grown});
}

void Trainer::merge_in_word(Pair pair, std::int32_t result, std::uint32_t word_index) {
  Word& word = words_[word_index];
  std::vector<std::int32_t>& ids = word.ids;
  std::size_t size = 0;  // of what is merged so far, at the front of ids
  for (std::size_t i = 0; i < ids.size(); ++size) {
    if (i + 1 == ids.size() || ids[i] != pair.left || ids[i + 1] != pair.right) {
      ids[size] = ids[i++];
      continue;
    }
    i += 2;
    if (size > 0) {
      add_to_count({ids[size - 1], pair.left}, -word.count, word_index);
      add_to_count({ids[size - 1], result}, word.count, word_index);
    }
    if (i < ids.size()) {
      add_to_count({pair.right, ids[i]}, -word.count, word_index);
      add_to_count({result, ids[i]}, word.count, word_index);
    }
    ids[size] = result;
  }
  ids.resize(size);
}

void Trainer::add_to_count(Pair pair, std::int64_t change, std::uint32_t word_index) {
  PairState& state = pairs_[pair];
  state.count += change;
  if (change < 0) return;
  if (state.words.empty() || state.words.back() != word_index) state.words.push_back(word_index);
  grown_.push_back(pair);
}

void check_options(const BpeTrainOptions& options) {
  const auto num_special = static_cast<int>(options.special_tokens.size());
  TS_CHECK(options.vocab_size >= kNumBytes + num_special,
           "vocab_size is {}, expected at least {}: 256 bytes and {} special tokens", options.vocab_size,
           kNumBytes + num_special, num_special);
  TS_CHECK(options.min_frequency >= 1, "min_frequency is {}, expected at least 1", options.min_frequency);
  std::set<std::string> seen;
  for (const std::string& token : options.special_tokens) {
    const bool printable =
        std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
    TS_CHECK(printable && looks_special(token),
             "special token \"{}\": expected printable ASCII in <> or [], such as <|endoftext|>", token);
    // Of several pieces, it cannot come out of merges, so no ordinary text ever has its id.
    TS_CHECK(piece_end(token, 0) < token.size(), "special token \"{}\": expected letters or digits inside",
             token);
    TS_CHECK(seen.insert(token).second, "special token \"{}\" is given twice", token);
  }
}

}  // namespace

void count_words(std::string_view document, WordCounts& counts) {
  for (std::size_t at = 0; at < document.size();) {
    const std::size_t end = piece_end(document, at);
    const std::string_view word = document.substr(at, end - at);
    if (const auto found = counts.find(word); found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(word, 1);
    }
    at = end;
  }
}

BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainOptions& options) {
  check_options(options);
  const int num_special = static_cast<int>(options.special_tokens.size());
  Trainer trainer(counts);
  while (trainer.num_tokens() + num_special < options.vocab_size) {
    const std::int64_t count = trainer.best_count();
    TS_CHECK(count >= options.min_frequency,
             "the text is too small for vocab_size {}: after {} tokens no pair occurs {} times; "
             "give more text or a smaller vocab_size",
             options.vocab_size, trainer.num_tokens() + num_special, options.min_frequency);
    trainer.merge_best();
    if (options.progress) options.progress(trainer.num_tokens() + num_special, options.vocab_size);
  }
  BpeVocabulary vocabulary = trainer.take();
  for (const std::string& token : options.special_tokens) vocabulary.tokens.push_back(token);
  return vocabulary;
}

BpeVocabulary train_bpe(std::string_view document, const BpeTrainOptions& options) {
  WordCounts counts;
  count_words(document, counts);
  return train_bpe(counts, options);
}

}  // namespace tessera
