#include "tessera/text/utf8.h"

#include <cstring>

namespace tessera {
namespace {

std::uint32_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// How many bytes of a sequence with this lead byte may follow, and the range of the first of them: Unicode's
// table of well-formed sequences. No continuation: the lead byte itself is ill-formed.
struct LeadByte {
  std::size_t num_following = 0;
  std::uint32_t second_from = 0x80;
  std::uint32_t second_to = 0xbf;
};

LeadByte lead_byte(std::uint32_t lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return {1};
  if (lead == 0xe0) return {2, 0xa0, 0xbf};
  if (lead == 0xed) return {2, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {2};
  if (lead == 0xf0) return {3, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {3};
  if (lead == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

// Bytes from text[at] on that begin a well-formed sequence but do not finish it; at least 1.
std::size_t ill_formed_bytes(std::string_view text, std::size_t at) {
  const LeadByte lead = lead_byte(byte_at(text, at));
  std::size_t size = 1;
  for (; size <= lead.num_following && at + size < text.size(); ++size) {
    const std::uint32_t byte = byte_at(text, at + size);
    const bool fits =
        size == 1 ? byte >= lead.second_from && byte <= lead.second_to : (byte & 0xc0u) == 0x80u;
    if (!fits) break;
  }
  return size;
}

}  // namespace

DecodedChar decode_multibyte(std::string_view text, std::size_t at) {
  const std::uint32_t first = byte_at(text, at);
  const LeadByte lead = lead_byte(first);
  if (lead.num_following == 0 || text.size() - at <= lead.num_following) return {};
  const std::uint32_t second = byte_at(text, at + 1);
  if (second < lead.second_from || second > lead.second_to) return {};
  std::uint32_t code_point = (first & (0x3fu >> lead.num_following)) << 6 | (second & 0x3fu);
  for (std::size_t i = 2; i <= lead.num_following; ++i) {
    const std::uint32_t byte = byte_at(text, at + i);
    if ((byte & 0xc0u) != 0x80u) return {};
    code_point = code_point << 6 | (byte & 0x3fu);
  }
  return {code_point, lead.num_following + 1};
}

DecodedChar decode_char(std::string_view text, std::size_t at) {
  const std::uint32_t first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const DecodedChar decoded = decode_multibyte(text, at);
  return decoded.num_bytes > 0 ? decoded : DecodedChar{0xfffd, 1};
}

void append_utf8(char32_t code_point, std::string& append_to) {
  const auto code = static_cast<std::uint32_t>(code_point);
  const auto continuation = [&](int shift) {
    append_to.push_back(static_cast<char>(0x80u | (code >> shift & 0x3fu)));
  };
  if (code < 0x80) {
    append_to.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    append_to.push_back(static_cast<char>(0xc0u | code >> 6));
    continuation(0);
  } else if (code < 0x10000) {
    append_to.push_back(static_cast<char>(0xe0u | code >> 12));
    continuation(6);
    continuation(0);
  } else {
    append_to.push_back(static_cast<char>(0xf0u | code >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::size_t ascii_end(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  while (text.size() - at >= 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (word & kHighBits) break;
    at += 8;
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

std::string_view well_formed(std::string_view text, std::string& buffer) {
  bool copying = false;
  std::size_t copied = 0;  // of text, into buffer
  for (std::size_t at = ascii_end(text, 0); at < text.size(); at = ascii_end(text, at)) {
    if (const DecodedChar decoded = decode_multibyte(text, at); decoded.num_bytes > 0) {
      at += decoded.num_bytes;
      continue;
    }
    if (!copying) buffer.clear();
    copying = true;
    buffer.append(text.substr(copied, at - copied));
    append_utf8(0xfffd, buffer);
    at += ill_formed_bytes(text, at);
    copied = at;
  }
  if (!copying) return text;
  buffer.append(text.substr(copied));
  return buffer;
}

}  // namespace tessera
