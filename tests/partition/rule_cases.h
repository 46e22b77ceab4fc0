// RuleCase: a node to run whole and on shards. The cases of every op with a placement rule, in shapes that
// divide by two and three and in shapes that do not; used by placement_rule_test.cpp.
#pragma once

#include <string>
#include <vector>

#include "tessera/ops/activation.h"
#include "tessera/ops/add_positions.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/dropout_add.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/lamb.h"
#include "tessera/ops/layer_norm.h"
#include "tessera/ops/matmul.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/ops/rope.h"
#include "tessera/ops/sgd.h"
#include "tessera/ops/slice.h"

namespace tessera {

// An input's type and what it holds: normal numbers, or integers in [least, most].
struct CaseInput {
  ValueType type;
  std::int64_t least = 0, most = 0;
  bool positive = false;         // absolute values: variances, second moments
  bool optimizer_state = false;  // stored as a range alone where it is flat
};

struct RuleCase {
  Op op{};
  Attrs attrs;
  std::vector<CaseInput> inputs;
  // Inputs that are gradients, of which copies may be terms of a sum: the op is linear in them together.
  std::vector<std::size_t> gradients = {};
};

inline CaseInput real(const Shape& shape) {
  return {.type = {DType::f64, shape}};
}
inline CaseInput positive(const Shape& shape) {
  return {.type = {DType::f64, shape}, .positive = true};
}
inline CaseInput integers(const Shape& shape, std::int64_t least, std::int64_t most) {
  return {.type = {DType::i32, shape}, .least = least, .most = most};
}
inline CaseInput state(DType dtype, const Shape& shape, bool is_positive = false) {
  return {.type = {dtype, shape}, .positive = is_positive, .optimizer_state = true};
}

inline CaseInput low_halves(const Shape& shape) {
  return {.type = {DType::i16, shape}, .least = -32768, .most = 32767, .optimizer_state = true};
}

inline void add_plain_cases(std::vector<RuleCase>& cases) {
  for (const Shape& shape : {Shape{4, 5, 7}, Shape{6, 6, 12}, Shape{5}}) {
    const CaseInput x = real(shape), last = real(Shape{shape[-1]});
    cases.push_back({Op::add, {}, {x, x}, {0, 1}});
    cases.push_back({Op::add, {}, {x, last}});
    cases.push_back({Op::mul, {}, {x, x}, {0}});
    cases.push_back({Op::scale, ScaleAttrs{0.7}, {x}, {0}});
    cases.push_back({Op::sum_to, {}, {x, x}, {1}});
    cases.push_back({Op::sum_to, {}, {last, x}, {1}});
    cases.push_back({Op::slice, SliceAttrs{1, shape[-1] - 2}, {x}, {0}});
    cases.push_back({Op::pad, PadAttrs{2, shape[-1] + 3}, {x}, {0}});
    cases.push_back({Op::concat, {}, {x, x, x}});
    cases.push_back({Op::softmax, {}, {x}});
    cases.push_back({Op::softmax_grad, {}, {x, x}, {0}});
    for (Op op : {Op::silu, Op::gelu, Op::tanh}) cases.push_back({op, GeluAttrs{true}, {x}});
    for (Op op : {Op::silu_grad, Op::gelu_grad, Op::tanh_grad})
      cases.push_back({op, GeluAttrs{true}, {x, x}, {0}});
    const CaseInput key = integers({4}, 0, 9);
    cases.push_back({Op::dropout_add, DropoutAttrs{0.4, 3}, {x, key, x}});
    cases.push_back({Op::dropout_add, DropoutAttrs{0.4, 3}, {x, key}});
    cases.push_back({Op::dropout_grad, DropoutAttrs{0.4, 3}, {x, key}, {0}});
  }
  for (const Shape& shape : {Shape{4, 5, 7}, Shape{6, 6, 12}}) {
    cases.push_back({Op::slice, SliceAttrs{1, 2, -2}, {real(shape)}, {0}});
    cases.push_back({Op::pad, PadAttrs{2, shape[1] + 3, -2}, {real(shape)}, {0}});
  }
  for (std::int64_t width : {7, 12}) {
    const CaseInput packed = real({4, 5, 2 * width}), half = real({4, 5, width});
    cases.push_back({Op::swiglu, {}, {packed}});
    cases.push_back({Op::swiglu_grad, {}, {half, packed}, {0}});
  }
}

inline void add_product_cases(std::vector<RuleCase>& cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const CaseInput a = real(ta ? Shape{4, 7, 5} : Shape{4, 5, 7}),
                      b = real(tb ? Shape{4, 8, 7} : Shape{4, 7, 8});
      cases.push_back({Op::matmul, MatmulAttrs{ta, tb}, {a, b}});
    }
  }
  for (const Shape& nk : {Shape{10, 7}, Shape{12, 6}}) {
    const CaseInput x = real({4, 5, nk[1]}), dy = real({4, 5, nk[0]}), w = real(nk);
    cases.push_back({Op::linear, {}, {x, w}});
    cases.push_back({Op::linear, {}, {x, w, real({nk[0]})}});
    cases.push_back({Op::linear_grad_input, {}, {dy, w}, {0}});
    cases.push_back({Op::linear_grad_weight, {}, {w, dy, x}, {1}});
  }
}

inline void add_norm_and_lookup_cases(std::vector<RuleCase>& cases) {
  for (const Shape& rows : {Shape{4, 5}, Shape{6, 6}}) {
    const CaseInput x = real({rows[0], rows[1], 7}), w = real({7}), s = positive(rows), m = real(rows);
    cases.push_back({Op::rms_norm, RmsNormAttrs{}, {x, w}});
    cases.push_back({Op::rms_norm_grad, RmsNormAttrs{}, {x, x, w, s, w}});
    cases.push_back({Op::layer_norm, LayerNormAttrs{}, {x, w, w}});
    cases.push_back({Op::layer_norm_grad, LayerNormAttrs{}, {x, x, w, m, s, w, w}});
    const CaseInput positions = real({rows[1] + 2, 7});
    cases.push_back({Op::add_positions, AddPositionsAttrs{}, {x, positions}});
    cases.push_back({Op::add_positions_grad, AddPositionsAttrs{}, {positions, x}});
  }
  for (std::int64_t vocabulary : {11, 12}) {
    // Ids have no padding that an embedding could look up: batches divide, and sequences are cut after it.
    const CaseInput table = real({vocabulary, 5}), ids = integers({6, 6}, 0, vocabulary - 1);
    cases.push_back({Op::embedding, EmbeddingAttrs{}, {table, ids}});
    cases.push_back({Op::embedding_grad, EmbeddingAttrs{}, {table, ids, real({6, 6, 5})}});
    cases.push_back({Op::embedding_grad, EmbeddingAttrs{.padding_id = 7}, {table, ids, real({6, 6, 5})}});
    const CaseInput x = real({4, 5, 7}), w = real({vocabulary, 7}), scale = real({});
    const CaseInput targets = integers({4, 5}, -1, vocabulary - 1), logits = real({4, 5, vocabulary});
    cases.push_back({Op::softmax_cross_entropy, {}, {logits, targets, scale}});
    cases.push_back({Op::softmax_cross_entropy_grad, {}, {logits, targets, scale}});
    for (std::int64_t chunk_rows : {20, 3}) {
      const LinearCrossEntropyAttrs attrs{.chunk_rows = chunk_rows, .rows = 20};
      cases.push_back({Op::linear_cross_entropy, attrs, {x, w, targets, scale}});
      cases.push_back({Op::linear_cross_entropy_grad, attrs, {x, w, targets, scale, w}});
      const CaseInput bias = real({vocabulary}), few = integers({4, 5}, -1, vocabulary - 4);
      cases.push_back({Op::linear_cross_entropy, attrs, {x, w, targets, scale, bias}});
      cases.push_back({Op::linear_cross_entropy_grad, attrs, {x, w, targets, scale, w, bias, bias}});
      // More padding than a rank's part: the last one has no word at all.
      const LinearCrossEntropyAttrs padded{.chunk_rows = chunk_rows, .rows = 20, .words = vocabulary - 3};
      cases.push_back({Op::linear_cross_entropy, padded, {x, w, few, scale, bias}});
      cases.push_back({Op::linear_cross_entropy_grad, padded, {x, w, few, scale, w, bias, bias}});
    }
  }
}

inline void add_attention_cases(std::vector<RuleCase>& cases) {
  for (std::int64_t kv_heads : {1, 2, 3, 6}) {
    const HeadLayout heads{6, kv_heads, 4};
    const CaseInput qkv = real({4, 5, heads.qkv_columns()}), out = real({4, 5, heads.out_columns()});
    cases.push_back({Op::rope, RopeAttrs{heads, false}, {qkv, real({5, 2, 2})}});
    cases.push_back({Op::rope, RopeAttrs{heads, true}, {qkv, real({5, 2, 2})}, {0}});
    cases.push_back({Op::attention, AttentionAttrs{heads, 0.5}, {qkv}});
    const CaseInput lse = positive({4, 6, 5}), counts = integers({4, 1}, 1, 5);
    cases.push_back({Op::attention_grad, AttentionAttrs{heads, 0.5}, {out, qkv, out, lse}});
    for (const bool causal : {false, true}) {
      cases.push_back({Op::attention, AttentionAttrs{heads, 0.5, causal}, {qkv, counts}});
      cases.push_back({Op::attention_grad, AttentionAttrs{heads, 0.5, causal}, {out, qkv, out, lse, counts}});
    }
    const AttentionAttrs drops{.heads = heads, .scale = 0.5, .causal = false, .dropout = 0.3, .stream = 2};
    const CaseInput key = integers({4}, 1, 1000);
    cases.push_back({Op::attention, drops, {qkv, key}});
    cases.push_back({Op::attention, drops, {qkv, counts, key}});
    cases.push_back({Op::attention_grad, drops, {out, qkv, out, lse, key}});
    cases.push_back({Op::attention_grad, drops, {out, qkv, out, lse, counts, key}});
  }
}

inline void add_update_cases(std::vector<RuleCase>& cases) {
  const AdamWAttrs attrs{.weight_decay = 0.1};
  for (const Shape& shape : {Shape{10, 7}, Shape{12, 6}, Shape{1}}) {
    const CaseInput step = integers({}, 3, 3);
    const auto scalar = [](DType dtype) { return CaseInput{.type = {dtype, {}}, .positive = true}; };
    cases.push_back({Op::sum_squares, SumSquaresAttrs{}, {real(shape)}});
    cases.push_back({Op::adamw,
                     attrs,
                     {real(shape), real(shape), state(DType::f64, shape), state(DType::f64, shape, true),
                      scalar(DType::f64), step, scalar(DType::f64)}});
    const CaseInput half{.type = {DType::bf16, shape}}, single{.type = {DType::f32, shape}};
    cases.push_back({Op::adamw,
                     attrs,
                     {half, single, state(DType::f32, shape), state(DType::f32, shape, true),
                      scalar(DType::f32), step, scalar(DType::f32), low_halves(shape)}});
  }
  cases.push_back({Op::sum_scalars, {}, {real({}), real({}), real({})}});
  cases.push_back({Op::stack_scalars, {}, {real({}), real({}), real({})}});
}

inline void add_lamb_and_sgd_cases(std::vector<RuleCase>& cases) {
  const LambDirectionAttrs direction{.weight_decay = 0.1};
  const SgdAttrs sgd{.weight_decay = 0.1};
  for (const Shape& shape : {Shape{10, 7}, Shape{12, 6}, Shape{1}}) {
    const CaseInput step = integers({}, 3, 3), x = real(shape), one = positive({}), squares = positive({4});
    const CaseInput m = state(DType::f64, shape), v = state(DType::f64, shape, true);
    cases.push_back({Op::sum_squares, SumSquaresAttrs{}, {m, x}});
    cases.push_back({Op::lamb_direction, direction, {x, x, m, v, step, one}});
    cases.push_back({Op::lamb, LambAttrs{.index = 2}, {x, x, one, squares}});
    cases.push_back({Op::sgd, sgd, {x, x, m, one, one}});
    const CaseInput half{.type = {DType::bf16, shape}}, single{.type = {DType::f32, shape}};
    const CaseInput scalar{.type = {DType::f32, {}}, .positive = true}, low = low_halves(shape);
    const CaseInput moment = state(DType::f32, shape);
    const CaseInput norms{.type = {DType::f32, {4}}, .positive = true};
    cases.push_back({Op::lamb_direction,
                     direction,
                     {half, single, moment, state(DType::f32, shape, true), step, scalar, low}});
    cases.push_back({Op::lamb, LambAttrs{.index = 2}, {half, single, scalar, norms, low}});
    cases.push_back({Op::sgd, sgd, {half, single, moment, scalar, scalar, low}});
  }
}

inline std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases;
  add_plain_cases(cases);
  add_product_cases(cases);
  add_norm_and_lookup_cases(cases);
  add_attention_cases(cases);
  add_update_cases(cases);
  add_lamb_and_sgd_cases(cases);
  return cases;
}

}  // namespace tessera
