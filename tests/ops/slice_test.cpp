#include "tessera/ops/slice.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily slice_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{7}, Shape{3, 7}, Shape{2, 3, 7}}) {
    for (const SliceAttrs piece : {SliceAttrs{0, 7}, SliceAttrs{0, 3}, SliceAttrs{2, 4}, SliceAttrs{6, 1}}) {
      const std::string suffix =
          shape.text() + std::to_string(piece.begin) + "+" + std::to_string(piece.size);
      family.cases.push_back({"slice" + suffix, [=](CaseGraph& c) {
                                return slice(c.graph, "node", c.real("x", shape), piece.begin, piece.size);
                              }});
      family.cases.push_back({"pad" + suffix, [=](CaseGraph& c) {
                                Shape part = shape;
                                part.set(-1, piece.size);
                                return emit(c.graph, Op::pad, Phase::forward, "node",
                                            PadAttrs{piece.begin, 7}, {c.real("x", part)})[0];
                              }});
    }
  }
  for (const int dim : {-2, -3}) {
    family.cases.push_back({"slice of rows" + std::to_string(dim), [=](CaseGraph& c) {
                              return slice(c.graph, "node", c.real("x", {5, 4, 3}), 1, 2, dim);
                            }});
    family.cases.push_back({"pad of rows" + std::to_string(dim), [=](CaseGraph& c) {
                              return emit(c.graph, Op::pad, Phase::forward, "node", PadAttrs{1, 7, dim},
                                          {c.real("x", {5, 4, 3})})[0];
                            }});
  }
  family.cases.push_back(
      {"concat", [](CaseGraph& c) {
         return concat(c.graph, "node", {c.real("a", {3, 1}), c.real("b", {3, 4}), c.real("c", {3, 5})});
       }});
  family.cases.push_back({"concat_one_twice", [](CaseGraph& c) {
                            const ValueId x = c.real("x", {2, 3});
                            return concat(c.graph, "node", {x, x});
                          }});
  family.refused = {
      {Op::slice, SliceAttrs{3, 5}, {f64({2, 7})}, {"3 to 8", "[2,7]"}},
      {Op::slice, SliceAttrs{-1, 2}, {f64({2, 7})}, {"-1 to 1", "[2,7]"}},
      {Op::slice, SliceAttrs{2, 3, -2}, {f64({4, 7})}, {"2 to 5", "[4,7]"}},
      {Op::slice, SliceAttrs{0, 1, -2}, {f64({7})}, {"[7]", "2 dims"}},
      {Op::slice, SliceAttrs{0, 1}, {f64({})}, {"[]", "1 dims"}},
      {Op::slice, SliceAttrs{0, 1}, {i32({2})}, {"i32", "floating"}},
      {Op::pad, PadAttrs{3, 5}, {f64({2, 3})}, {"[2,3]", "5 columns at 3"}},
      {Op::pad, PadAttrs{0, 5}, {f64({})}, {"[]", "1 dims"}},
      {Op::pad, PadAttrs{0, 5}, {i32({2})}, {"i32", "floating"}},
      {Op::concat, {}, {f64({2, 3}), f64({3, 3})}, {"input 1", "f64[3,3]", "f64[2,3]"}},
      {Op::concat, {}, {f64({2, 3}), f32({2, 3})}, {"input 1", "f32[2,3]", "f64[2,3]"}},
      {Op::concat, {}, {f64({})}, {"[]", "1 dims"}},
  };
  return family;
}

}  // namespace tessera
