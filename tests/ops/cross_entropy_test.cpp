#include "tessera/ops/cross_entropy.h"

#include <cmath>

#include "ops/op_check.h"

namespace tessera {
namespace {

// Targets from -1 on: one in `vocab + 1` rows is not scored.
ValueId targets_of(CaseGraph& c, const Shape& rows, std::int64_t vocab) {
  return c.ids("targets", rows, -1, vocab - 1);
}

std::vector<double> naive_loss(const std::vector<double>& logits, const CaseValues& in, std::int64_t vocab) {
  double loss = 0;
  for (std::size_t r = 0; r < in.at("targets").size(); ++r) {
    const auto target = static_cast<std::int64_t>(in.at("targets")[r]);
    if (target < 0) continue;
    const double* row = &logits[r * static_cast<std::size_t>(vocab)];
    double total = 0;
    for (std::int64_t v = 0; v < vocab; ++v) total += std::exp(row[v]);
    loss += std::log(total) - row[target];
  }
  return {loss * in.at("loss_scale")[0]};
}

OpCase plain_case(const Shape& rows, std::int64_t vocab) {
  Shape shape = rows;
  shape.push_back(vocab);
  return {"softmax_cross_entropy" + shape.text(),
          [=](CaseGraph& c) {
            return softmax_cross_entropy(c.graph, "node", c.real("logits", shape), targets_of(c, rows, vocab),
                                         c.constant("loss_scale", f64({}), {0.37}));
          },
          [=](const CaseValues& in) { return naive_loss(in.at("logits"), in, vocab); }};
}

// `padding`: rows of the weight behind the words.
OpCase fused_case(const Shape& rows, std::int64_t width, std::int64_t vocab, std::int64_t chunk_rows,
                  bool bias = false, std::int64_t padding = 0) {
  Shape shape = rows;
  shape.push_back(width);
  const auto build = [=](CaseGraph& c) {
    std::vector<ValueId> inputs = {c.real("x", shape), c.real("weight", {vocab + padding, width}),
                                   targets_of(c, rows, vocab), c.constant("loss_scale", f64({}), {0.37})};
    if (bias) inputs.push_back(c.real("bias", {vocab + padding}));
    const LinearCrossEntropyAttrs attrs{.chunk_rows = chunk_rows, .words = padding > 0 ? vocab : 0};
    return emit(c.graph, Op::linear_cross_entropy, Phase::forward, "node", attrs, inputs)[0];
  };
  const auto naive = [=](const CaseValues& in) {
    std::vector<double> logits;
    for (std::int64_t r = 0; r < rows.num_elems(); ++r) {
      for (std::int64_t v = 0; v < vocab; ++v) {
        double sum = bias ? in.at("bias")[v] : 0.0;
        for (std::int64_t i = 0; i < width; ++i)
          sum += in.at("x")[r * width + i] * in.at("weight")[v * width + i];
        logits.push_back(sum);
      }
    }
    return naive_loss(logits, in, vocab);
  };
  return {"linear_cross_entropy" + shape.text() + "vocab" + std::to_string(vocab) + "chunk" +
              std::to_string(chunk_rows) + (bias ? "bias" : "") + "padding" + std::to_string(padding),
          build, naive};
}

}  // namespace

OpFamily cross_entropy_family() {
  OpFamily family;
  for (const Shape& rows : {Shape{1}, Shape{7}, Shape{2, 5}}) {
    for (std::int64_t vocab : {3, 9}) family.cases.push_back(plain_case(rows, vocab));
  }
  // One chunk, chunks that divide the rows, chunks that do not, and a chunk larger than the rows.
  for (std::int64_t chunk_rows : {10, 5, 3, 4, 1, 16})
    family.cases.push_back(fused_case({2, 5}, 4, 7, chunk_rows));
  family.cases.push_back(fused_case({3}, 1, 2, 2));
  for (std::int64_t chunk_rows : {10, 3}) {
    family.cases.push_back(fused_case({2, 5}, 4, 7, chunk_rows, true));
    family.cases.push_back(fused_case({2, 5}, 4, 7, chunk_rows, false, 3));
    family.cases.push_back(fused_case({2, 5}, 4, 7, chunk_rows, true, 2));
  }
  const LinearCrossEntropyAttrs attrs{4};
  const ValueType x = f64({2, 5, 4}), w = f64({7, 4}), ids = i32({2, 5}), one = f64({});
  family.refused = {
      {Op::softmax_cross_entropy, {}, {x, i32({2, 4}), one}, {"[2,4]", "[2,5,4]"}},
      {Op::softmax_cross_entropy, {}, {x, i32({10}), one}, {"[10]", "[2,5,4]"}},
      {Op::softmax_cross_entropy, {}, {one, i32({}), one}, {"[]", "1 dims"}},
      {Op::softmax_cross_entropy, {}, {x, f64({2, 5}), one}, {"input 1", "f64", "i32"}},
      {Op::softmax_cross_entropy, {}, {x, ids, f64({1})}, {"[1]", "[]"}},
      {Op::softmax_cross_entropy, {}, {x, ids, f32({})}, {"input 2", "f32", "f64"}},
      {Op::softmax_cross_entropy_grad, {}, {x, i32({2, 4}), one}, {"[2,4]", "[2,5,4]"}},
      {Op::softmax_cross_entropy_grad, {}, {x, ids, f32({})}, {"input 2", "f32", "f64"}},
      {Op::linear_cross_entropy, attrs, {x, f64({7, 3}), ids, one}, {"[2,5,4]", "[7,3]"}},
      {Op::linear_cross_entropy, attrs, {one, w, i32({}), one}, {"[]", "[7,4]"}},
      {Op::linear_cross_entropy, attrs, {x, f64({}), ids, one}, {"[2,5,4]", "[]"}},
      {Op::linear_cross_entropy, attrs, {x, w, i32({2}), one}, {"[2]", "[2,5,4]"}},
      {Op::linear_cross_entropy, attrs, {x, f32({7, 4}), ids, one}, {"input 1", "f32", "f64"}},
      {Op::linear_cross_entropy, LinearCrossEntropyAttrs{0}, {x, w, ids, one}, {"chunk_rows is 0"}},
      {Op::linear_cross_entropy, attrs, {x, w, ids, one, f64({6})}, {"[6]", "[7]"}},
      {Op::linear_cross_entropy, attrs, {x, w, ids, one, f32({7})}, {"input 4", "f32", "f64"}},
      {Op::linear_cross_entropy, LinearCrossEntropyAttrs{4, 0, 8}, {x, w, ids, one}, {"8 words", "[7,4]"}},
      {Op::linear_cross_entropy_grad, attrs, {x, w, ids, one, w, f64({6}), f64({6})}, {"[6]", "[7]"}},
      {Op::linear_cross_entropy_grad, attrs, {x, w, ids, one, w, f64({7}), f32({7})}, {"input 6", "f32"}},
      {Op::linear_cross_entropy_grad, attrs, {x, f64({7, 3}), ids, one, w}, {"[2,5,4]", "[7,3]"}},
      {Op::linear_cross_entropy_grad, attrs, {x, w, ids, one, f64({4, 7})}, {"[4,7]", "[7,4]"}},
      {Op::linear_cross_entropy_grad, attrs, {x, w, ids, one, f32({7, 4})}, {"input 4", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
