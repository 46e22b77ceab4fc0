#include "tessera/text/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/text/utf8.h"

namespace tessera {
namespace {

constexpr std::size_t kChunkBytes = 1 << 16;  // a chunk that is in normal form already is only copied

// Before an ASCII character nothing composes: it is never the second of two characters that do.
std::size_t chunk_end(std::string_view text, std::size_t at) {
  std::size_t end = std::min(at + kChunkBytes, text.size());
  while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
  return end;
}

void append_nfc(const icu::Normalizer2& nfc, std::string_view chunk, std::string& append_to) {
  TS_CHECK(chunk.size() <= std::numeric_limits<std::int32_t>::max(),
           "a text has {} bytes without an ASCII character, at most {} can be normalised", chunk.size(),
           std::numeric_limits<std::int32_t>::max());
  const icu::StringPiece piece(chunk.data(), static_cast<std::int32_t>(chunk.size()));
  UErrorCode status = U_ZERO_ERROR;
  if (nfc.isNormalizedUTF8(piece, status)) {
    append_to.append(chunk);
  } else {
    icu::StringByteSink<std::string> sink(&append_to);
    nfc.normalizeUTF8(0, piece, sink, nullptr, status);
  }
  TS_CHECK(U_SUCCESS(status), "ICU could not normalise a text: {}", u_errorName(status));
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  if (ascii_end(text, 0) == text.size()) return text;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  TS_CHECK(U_SUCCESS(status), "ICU has no normal form C: {}", u_errorName(status));
  buffer.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = chunk_end(text, at);
    append_nfc(*nfc, text.substr(at, end - at), buffer);
    at = end;
  }
  return buffer;
}

}  // namespace tessera
