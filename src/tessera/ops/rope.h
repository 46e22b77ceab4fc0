// rope: rotary position embedding (Su et al., 2021) on the query and key heads of a packed qkv tensor,
// in the half-split order of Hugging Face: element i of a head turns with element i + rotary_dim / 2.
#pragma once

#include "tessera/ops/heads.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct RopeTableAttrs {
  std::int64_t seq_len = 0;
  std::int64_t rotary_dim = 0;
  double theta = 10000.0;
  DType dtype = DType::f32;
  void describe(AttrWriter& write) const {
    write("seq_len", seq_len);
    write("rotary_dim", rotary_dim);
    write("theta", theta);
    write("dtype", dtype_name(dtype));
  }
};

struct RopeAttrs {
  HeadLayout heads;
  bool inverse = false;  // turns back: the gradient
  void describe(AttrWriter& write) const {
    heads.describe(write);
    write("inverse", inverse);
  }
};

// A constant [seq_len, rotary_dim / 2, 2] of (cos, sin), computed in double and stored in the
// accumulation type of `dtype`, as bf16 angles would be useless.
ValueId rope_table(Graph& graph, std::string name, const RopeTableAttrs& attrs);

// qkv[B, T, columns], table[T, rotary_dim / 2, 2] -> [B, T, columns]
// first i32[1]: the position of the first token, for a text that is continued; the table then has any number
// of positions, and tokens behind them are turned by the last. kNoValue: 0.
ValueId rope(Graph& graph, std::string name, ValueId qkv, ValueId table, const HeadLayout& heads,
             ValueId first = kNoValue);

}  // namespace tessera
