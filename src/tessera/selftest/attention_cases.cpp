// Attention and rotary positions.
#include <cmath>

#include "tessera/ops/cached_attention.h"
#include "tessera/ops/rope.h"
#include "tessera/selftest/case_builders.h"

namespace tessera {
namespace {

struct HeadsCase {
  std::int64_t batch, seq_len;
  HeadLayout heads;
  bool causal = true;
  bool large = false;
  bool padded = false;
  double dropout = 0;
};

std::string label_of(const HeadsCase& c) {
  return fmt::format("{} heads, {} for keys, of {}{}{}{}", c.heads.heads, c.heads.kv_heads, c.heads.head_dim,
                     c.causal ? "" : ", not causal", c.padded ? ", padded" : "",
                     c.dropout > 0 ? ", dropout" : "");
}

bool has_many_outputs(const HeadsCase& c) {
  return c.batch * c.seq_len * c.heads.out_columns() > 1'000'000;
}

// In bf16 probabilities are rounded before the second product, on one device and not on the other. A row that
// sees a few keys is then off by up to 2^-8 of its largest values, however long the sequence, while the
// outputs' rms, by which small ones are measured, falls with the length. Imitated on the host, the rounding
// alone gives up to 1.7e-2 in 0.3 million outputs and 2.4e-2 to 2.8e-2 in millions; with dropout, where fewer
// keys are left and count for more, 2.6e-2 to 4.5e-2 from seed to seed.
double attention_bound(DType dtype, const HeadsCase& c) {
  if (dtype != DType::bf16) return 2e-5;
  if (!has_many_outputs(c)) return 2e-2;
  return c.dropout > 0 ? 6e-2 : 4e-2;
}

// Likewise: 1.5e-2 to 1.8e-2, in millions 1.7e-2 to 4.0e-2.
double grad_bound(DType dtype, const HeadsCase& c) {
  return (dtype == DType::bf16 && has_many_outputs(c) ? 1.5 : 1) * attention_grad_bound(dtype);
}

void add_attention(std::vector<OpCase>& cases, DType t, const HeadsCase& c) {
  AttentionAttrs attrs{c.heads, 1 / std::sqrt(static_cast<double>(c.heads.head_dim)), c.causal};
  attrs.dropout = c.dropout;
  attrs.stream = 11;
  const CaseInput qkv = normal(t, {c.batch, c.seq_len, c.heads.qkv_columns()});
  OpCase forward{Op::attention, label_of(c), attrs, {qkv}, attention_bound(t, c)};
  OpCase backward{Op::attention_grad, label_of(c), attrs,
                  attention_grad_inputs(t, c.batch, c.seq_len, c.heads), grad_bound(t, c)};
  forward.large = backward.large = c.large;
  if (c.padded) {
    for (OpCase* op_case : {&forward, &backward})
      op_case->inputs.push_back(integers({c.batch, 1}, 1, c.seq_len + 1));
  }
  if (c.dropout > 0) {
    // The first sequence is far into the global batch: the counters pass 2^32.
    for (OpCase* op_case : {&forward, &backward})
      op_case->inputs.push_back(integers({4}, 100'000, 2'000'000));
  }
  cases.push_back(std::move(forward));
  cases.push_back(std::move(backward));
}

void add_rope(std::vector<OpCase>& cases, DType t, const HeadsCase& c, std::int64_t rotary_dim) {
  const CaseInput qkv = normal(t, {c.batch, c.seq_len, c.heads.qkv_columns()});
  const CaseInput table = uniform(DType::f32, {c.seq_len, rotary_dim / 2, 2}, -1, 1);
  for (const bool inverse : {false, true}) {
    cases.push_back(
        {Op::rope, inverse ? "back" : "", RopeAttrs{c.heads, inverse}, {qkv, table}, element_bound(t)});
  }
  const CaseInput longer = uniform(DType::f32, {2 * c.seq_len, rotary_dim / 2, 2}, -1, 1);
  cases.push_back({Op::rope,
                   "continued",
                   RopeAttrs{c.heads, false},
                   {qkv, longer, integers({1}, 0, 2 * c.seq_len)},
                   element_bound(t)});
}

// Tokens behind the first 60 of the caches; those that do not fit are padding.
void add_cached_attention(std::vector<OpCase>& cases, DType t, const HeadsCase& c, std::int64_t positions) {
  const HeadLayout& heads = c.heads;
  const AttentionAttrs attrs{heads, 1 / std::sqrt(static_cast<double>(heads.head_dim)), true};
  const CaseInput qkv = normal(t, {c.batch, c.seq_len, heads.qkv_columns()});
  const CaseInput keys = normal(t, key_cache_type(t, c.batch, positions, heads).shape);
  const CaseInput values = normal(t, value_cache_type(t, c.batch, positions, heads).shape);
  cases.push_back({Op::cached_attention,
                   label_of(c),
                   attrs,
                   {qkv, keys, values, integers({1}, 60, positions - c.seq_len + 1)},
                   t == DType::bf16 ? 2e-2 : 2e-5});
}

constexpr HeadsCase kHeadsCases[] = {{2, 1, {4, 4, 64}},
                                     {2, 100, {4, 2, 32}},
                                     {1, 100, {8, 1, 64}},
                                     {1, 100, {2, 2, 128}, false},
                                     {2, 64, {2, 1, 128}},
                                     {1, 65, {3, 3, 40}},
                                     {1, 37, {2, 1, 33}},
                                     {1, 70, {2, 2, 16}, false},
                                     {1, 129, {2, 2, 96}},
                                     {1, 50, {2, 1, 160}},
                                     {1, 300, {12, 4, 64}},
                                     {2, 400, {5, 5, 64}},
                                     {1, 777, {3, 3, 128}},
                                     {1, 200, {300, 300, 64}},  // more tiles than a GPU takes at once
                                     {1, 130, {300, 100, 128}},
                                     {1, 200, {300, 300, 64}, true, false, false, 0.1},
                                     {2, 130, {150, 150, 128}, true, false, false, 0.1},
                                     {8, 1024, {12, 12, 64}, true, true},
                                     {1, 2048, {16, 4, 128}, true, true},
                                     {16, 128, {16, 16, 64}, false, true},
                                     {3, 100, {2, 1, 64}, false, false, true},
                                     {1, 1, {2, 2, 64}, false},
                                     {3, 100, {3, 3, 64}, false, false, true},
                                     {2, 64, {2, 2, 64}, true, false, true},
                                     {2, 200, {2, 2, 64}, false, false, true},
                                     {8, 512, {16, 16, 64}, false, true, true},
                                     {3, 70, {3, 3, 33}, true, false, true},
                                     {5, 300, {2, 2, 96}, false, false, true},
                                     {32, 128, {16, 16, 64}, false, true, true},
                                     {2, 100, {4, 2, 32}, true, false, false, 0.1},
                                     {2, 70, {2, 2, 64}, false, false, false, 0.5},
                                     {1, 129, {2, 1, 128}, true, false, false, 0.1},
                                     {1, 37, {2, 1, 33}, true, false, false, 0.1},
                                     {1, 50, {2, 1, 160}, false, false, false, 0.1},
                                     {3, 100, {2, 1, 64}, false, false, true, 0.1},
                                     {2, 128, {2, 2, 64}, true, false, false, 0.1},
                                     {1, 200, {2, 2, 128}, true, false, false, 0.1},
                                     {2, 50, {2, 2, 64}, true, false, true, 0.1},
                                     {2, 400, {5, 5, 64}, true, false, false, 0.1},
                                     {1, 777, {3, 3, 128}, true, false, false, 0.1},
                                     {1, 2048, {16, 16, 128}, true, true, false, 0.1},
                                     {3, 17, {2, 2, 64}, false, false, true, 0.1},
                                     {2, 130, {2, 2, 64}, false, false, false, 0.5},
                                     {8, 512, {16, 16, 64}, false, true, true, 0.1},
                                     {8, 1024, {12, 12, 64}, true, true, false, 0.1},
                                     {32, 128, {16, 16, 64}, false, true, true, 0.1}};

}  // namespace

std::vector<CaseInput> attention_grad_inputs(DType dtype, std::int64_t batch, std::int64_t seq_len,
                                             const HeadLayout& heads) {
  const CaseInput qkv = normal(dtype, {batch, seq_len, heads.qkv_columns()});
  const CaseInput out = normal(dtype, {batch, seq_len, heads.out_columns()});
  // About what the scores of such a qkv give: probabilities are then at most about 1.
  const double log_tokens = std::log(static_cast<double>(seq_len));
  const CaseInput lse =
      uniform(DType::f32, {batch, heads.heads, seq_len}, log_tokens + 0.3, log_tokens + 0.7);
  return {out, qkv, out, lse};
}

void add_attention_cases(std::vector<OpCase>& cases) {
  cases.push_back({Op::rope_table, "", RopeTableAttrs{4096, 128, 10000.0, DType::bf16}, {}, 1e-5});
  cases.push_back({Op::rope_table, "", RopeTableAttrs{1, 2, 500000.0, DType::f32}, {}, 1e-5});
  for (const DType t : kCaseTypes) {
    add_rope(cases, t, {2, 100, {8, 2, 64}}, 64);
    add_rope(cases, t, {1, 1, {2, 2, 32}}, 32);
    add_rope(cases, t, {2, 9, {3, 1, 12}}, 6);
    add_rope(cases, t, {3, 70, {4, 4, 64}}, 16);
    add_rope(cases, t, {1, 1024, {32, 8, 128}}, 128);
    add_rope(cases, t, {1, 2048, {32, 32, 128}}, 128);
    for (const HeadsCase& c : kHeadsCases) add_attention(cases, t, c);
    add_cached_attention(cases, t, {1, 1, {12, 12, 64}}, 128);
    add_cached_attention(cases, t, {1, 1, {32, 8, 128}}, 2048);
    add_cached_attention(cases, t, {2, 3, {3, 1, 33}}, 64);
    add_cached_attention(cases, t, {1, 64, {8, 2, 96}}, 512);
    add_cached_attention(cases, t, {1, 5, {2, 2, 160}}, 320);
  }
}

}  // namespace tessera
