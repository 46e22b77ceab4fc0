// cached_attention: attention of tokens that continue a text, whose earlier keys and values lie in a cache.
// The tokens' own keys and values are written behind them first; then every token sees all up to itself. What
// generation runs for one token, or for a block of a prompt; attention is what training runs.
//
// Keys lie transposed, so that neighbouring elements are those of neighbouring keys: scores are then sums of
// vectors, on CPUs and GPUs alike, and need no sum across lanes.
#pragma once

#include "tessera/ops/attention.h"

namespace tessera {

// A cache has room for a multiple of this many tokens: whole vectors on every device.
inline constexpr std::int64_t kCacheMultiple = 64;

ValueType key_cache_type(DType dtype, std::int64_t batch, std::int64_t positions, const HeadLayout& heads);
ValueType value_cache_type(DType dtype, std::int64_t batch, std::int64_t positions, const HeadLayout& heads);

struct CachedAttention {
  ValueId out = kNoValue;                      // [B, T, H head_dim]
  ValueId keys = kNoValue, values = kNoValue;  // the caches' next content, in their place
};

// qkv[B, T, (H + 2 KV) head_dim], keys[B, KV, head_dim, P], values[B, KV, P, head_dim], first i32[1]: where
// the first of the T tokens stands. Tokens from P on are not written, and what comes out for them means
// nothing: the last block of a prompt may be padded.
CachedAttention cached_attention(Graph& graph, std::string name, ValueId qkv, ValueId keys, ValueId values,
                                 ValueId first, const AttentionAttrs& attrs);

}  // namespace tessera
