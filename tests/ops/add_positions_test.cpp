#include "tessera/ops/add_positions.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily add_positions_family() {
  OpFamily family;
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 5}, Shape{3, 4, 2}}) {
    family.cases.push_back(
        {"add_positions" + shape.text(), [=](CaseGraph& c) {
           const Shape table{shape[1] + 2, shape[2]};  // positions beyond T get no gradient
           return add_positions(c.graph, "node", c.real("x", shape), c.real("table", table));
         }});
  }
  family.refused = {
      {Op::add_positions, {}, {f64({2, 3}), f64({4, 3})}, {"[2,3]", "[B, T, D]"}},
      {Op::add_positions, {}, {f64({2, 3, 5}), f64({4, 6})}, {"[4,6]", "[2,3,5]"}},
      {Op::add_positions, {}, {f64({2, 5, 3}), f64({4, 3})}, {"4 positions", "sequence length 5"}},
      {Op::add_positions, {}, {f64({2, 3, 5}), f32({4, 5})}, {"input 1", "f32", "f64"}},
      {Op::add_positions_grad, {}, {f64({4, 6}), f64({2, 3, 5})}, {"[4,6]", "[2,3,5]"}},
      {Op::add_positions_grad, {}, {f32({4, 5}), f64({2, 3, 5})}, {"input 0", "f32", "f64"}},
  };
  return family;
}

}  // namespace tessera
