#include "tessera/text/sentencepiece_merges.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "tessera/text/protobuf_message.h"
#include "tessera/text/sentencepiece_words.h"
#include "tessera/text/utf8.h"

namespace tessera {
namespace {

// By the numbers of sentencepiece_model.proto.
enum class PieceKind : std::uint64_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

std::optional<std::vector<Piece>> read_pieces(std::string_view model) {
  constexpr std::uint64_t kPieces = 1, kText = 1, kScore = 2, kKind = 3;
  const std::optional<ProtobufMessage> root = parse_protobuf(model);
  if (!root) return std::nullopt;
  std::vector<Piece> pieces;
  for (const ProtobufField& field : root->fields) {
    if (field.number != kPieces) continue;
    const std::optional<ProtobufMessage> message = parse_protobuf(field.bytes);
    if (!message) return std::nullopt;
    pieces.push_back({message->bytes(kText),
                      std::bit_cast<float>(static_cast<std::uint32_t>(message->number(kScore, 0))),
                      static_cast<PieceKind>(message->number(kKind, 1))});
  }
  return pieces;
}

// "<0x0A>"
std::optional<std::size_t> byte_of(std::string_view text) {
  std::size_t byte = 0;
  if (text.size() != 6 || !text.starts_with("<0x")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc{} || end != text.data() + 5) return std::nullopt;
  return byte;
}

using IdsByText = std::unordered_map<std::string_view, std::int32_t>;

// Every way to make the piece of two others. False when one of its characters is no piece.
bool add_merges(std::string_view piece, std::int32_t id, const IdsByText& ids,
                std::vector<BpeMerge>& append_to) {
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t size = decode_char(piece, at).num_bytes;
    if (!ids.contains(piece.substr(at, size))) return false;
    if (at > 0) {
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left != ids.end() && right != ids.end()) append_to.push_back({left->second, right->second, id});
    }
    at += size;
  }
  return true;
}

struct NormalPieces {
  IdsByText ids;
  std::vector<std::int32_t> by_score;  // of more than one character, the highest first
};

std::optional<NormalPieces> sort_normal_pieces(const std::vector<Piece>& pieces) {
  NormalPieces normal;
  const auto score = [&](std::int32_t id) { return pieces[static_cast<std::size_t>(id)].score; };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.kind == PieceKind::user_defined || piece.kind == PieceKind::unused) return std::nullopt;
    if (piece.kind != PieceKind::normal || piece.text.empty()) continue;
    const auto id = static_cast<std::int32_t>(i);
    normal.ids.emplace(piece.text, id);
    if (decode_char(piece.text, 0).num_bytes < piece.text.size()) normal.by_score.push_back(id);
  }
  std::ranges::sort(normal.by_score, std::greater<>(), score);
  if (std::ranges::adjacent_find(normal.by_score, std::equal_to<>(), score) != normal.by_score.end())
    return std::nullopt;
  return normal;
}

}  // namespace

std::optional<SentencepieceMerges> SentencepieceMerges::of_model(std::string_view model) {
  const std::optional<std::vector<Piece>> pieces = read_pieces(model);
  if (!pieces) return std::nullopt;
  const std::optional<NormalPieces> normal = sort_normal_pieces(*pieces);
  if (!normal) return std::nullopt;
  std::vector<BpeMerge> merges;
  for (const std::int32_t id : normal->by_score) {
    if (!add_merges((*pieces)[static_cast<std::size_t>(id)].text, id, normal->ids, merges))
      return std::nullopt;
  }
  SentencepieceMerges result(MergeTable(merges, MergeTable::Ranks::by_result));
  result.ascii_ids_.fill(kNoPiece);
  result.byte_ids_.fill(kNoPiece);
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    if ((*pieces)[i].kind != PieceKind::byte) continue;
    if (const auto byte = byte_of((*pieces)[i].text)) result.byte_ids_[*byte] = static_cast<std::int32_t>(i);
  }
  if (std::ranges::find(result.byte_ids_, kNoPiece) != result.byte_ids_.end()) return std::nullopt;
  for (const auto& [text, id] : normal->ids) {
    const DecodedChar c = decode_char(text, 0);
    if (c.num_bytes < text.size()) continue;
    if (c.code_point < 128) {
      result.ascii_ids_[c.code_point] = id;
    } else {
      result.other_ids_.emplace(c.code_point, id);
    }
  }
  // The library turns spaces into the sign for them before it looks.
  result.ascii_ids_[' '] = result.id_of(decode_char(kSentencepieceSpace, 0).code_point);
  return result.ascii_ids_[' '] == kNoPiece ? std::nullopt : std::optional(std::move(result));
}

std::int32_t SentencepieceMerges::id_of(char32_t c) const {
  if (c < 128) return ascii_ids_[c];
  const auto found = other_ids_.find(c);
  return found == other_ids_.end() ? kNoPiece : found->second;
}

bool SentencepieceMerges::encode(std::string_view text, std::vector<std::int32_t>& append_to) const {
  const std::size_t before = append_to.size();
  std::size_t first = before;  // of the ids that may merge
  const auto merge = [&] { append_to.resize(first + merges_.merge(std::span(append_to).subspan(first))); };
  for (std::size_t at = 0; at < text.size();) {
    DecodedChar c{static_cast<unsigned char>(text[at]), 1};
    if (c.code_point >= 128) c = decode_multibyte(text, at);
    if (c.num_bytes == 0) {
      append_to.resize(before);
      return false;
    }
    if (const std::int32_t id = id_of(c.code_point); id != kNoPiece) {
      append_to.push_back(id);
    } else {
      merge();
      for (const char byte : text.substr(at, c.num_bytes))
        append_to.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      first = append_to.size();
    }
    at += c.num_bytes;
  }
  merge();
  return true;
}

}  // namespace tessera
