#include "tessera/comm/local/stream_copy.h"

#include <cstddef>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace tessera::local {

#if defined(__AVX__)

void stream_copy(void* to, const void* from, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  // Up to the first whole line of the target: these stores want aligned addresses, and whole lines.
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % kLine);
  const std::int64_t head = misaligned == 0 ? 0 : kLine - misaligned;
  if (bytes < head + kLine) {
    if (bytes > 0) std::memcpy(out, in, static_cast<std::size_t>(bytes));
    return;
  }
  std::memcpy(out, in, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at + 32), high);
  }
  std::memcpy(out + at, in + at, static_cast<std::size_t>(bytes - at));
  _mm_sfence();  // such stores are ordered by nothing else
}

#else

void stream_copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#endif

}  // namespace tessera::local
