#include "tessera/ops/embedding.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily embedding_family() {
  OpFamily family;
  // More ids than rows, so that some repeat and some rows may not occur.
  for (const Shape& ids : {Shape{}, Shape{1}, Shape{9}, Shape{2, 5}}) {
    family.cases.push_back(
        {"embedding" + ids.text(), [=](CaseGraph& c) {
           return embedding(c.graph, "node", c.real("table", {4, 3}), c.ids("ids", ids, 0, 3));
         }});
  }
  family.refused = {
      {Op::embedding, {}, {f64({4}), i32({2})}, {"[4]", "[vocabulary, width]"}},
      {Op::embedding, {}, {f64({4, 3}), f64({2})}, {"input 1", "f64", "i32"}},
      {Op::embedding, {}, {f64({4, 3}), i32({1, 1, 1, 1, 1})}, {"[1,1,1,1,1]", "fewer than 5"}},
      {Op::embedding_grad, {}, {f64({4, 3}), i32({2}), f64({2, 5})}, {"[2,5]", "[2,3]"}},
      {Op::embedding_grad, {}, {f64({4}), i32({2}), f64({2, 3})}, {"[4]", "[vocabulary, width]"}},
      {Op::embedding_grad, {}, {f32({4, 3}), i32({2}), f64({2, 3})}, {"input 0", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
