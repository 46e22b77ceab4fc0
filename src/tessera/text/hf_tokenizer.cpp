#include "tessera/text/hf_tokenizer.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/text/bpe_encoder.h"
#include "tessera/text/nfc.h"
#include "tessera/text/utf8.h"

namespace tessera {
namespace {

// Might data/text_cut.h cut through this? It cuts before a space that follows something else than whitespace
// and precedes a letter: conservatively, any space that is not among spaces.
bool may_be_cut(std::string_view content) {
  const bool only_spaces = content.find_first_not_of(' ') == std::string_view::npos;
  return !only_spaces && content.find(' ') != std::string_view::npos;
}

}  // namespace

HfTokenizer::HfTokenizer(HfTokenizerFile file)
    : bpe_(std::move(file.vocabulary), BpeInput::utf8), nfc_(file.nfc), begin_of_text_(file.begin_of_text) {
  std::string buffer;
  for (const auto& added : file.added) {
    if (added.normalized) {
      in_normalized_.add(nfc_ ? to_nfc(added.content, buffer) : added.content, added.id);
    } else {
      in_text_.add(added.content, added.id);
    }
    encodes_parts_alone_ = encodes_parts_alone_ && !may_be_cut(added.content);
  }
}

HfTokenizer HfTokenizer::load(const std::filesystem::path& path) {
  HfTokenizerFile file = read_hf_tokenizer_file(path);
  try {
    return HfTokenizer(std::move(file));
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

class HfTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const HfTokenizer& tokenizer) : tokenizer_(tokenizer), bpe_(tokenizer.bpe_) {}

  void encode(std::string_view text, std::vector<std::int32_t>& append_to) override {
    const auto add_id = [&](std::int32_t id) { append_to.push_back(id); };
    const auto add_plain = [&](std::string_view part) { bpe_.encode(part, append_to); };
    const auto add_text = [&](std::string_view part) {
      const std::string_view normal = tokenizer_.nfc_ ? to_nfc(part, normalized_) : part;
      tokenizer_.in_normalized_.split(normal, add_plain, add_id);
    };
    tokenizer_.in_text_.split(well_formed(text, repaired_), add_text, add_id);
  }

 private:
  const HfTokenizer& tokenizer_;
  BpeEncoder bpe_;
  std::string repaired_, normalized_;
};

std::unique_ptr<TextEncoder> HfTokenizer::make_encoder() const {
  return std::make_unique<Encoder>(*this);
}

}  // namespace tessera
