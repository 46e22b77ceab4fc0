// OpFamily: the cases of one family of ops; a file <family>_test.cpp holds nothing else. op_check_test.cpp
// runs them all: gradients against finite differences, fused ops against their composition, forward
// against a naive loop, wrong inputs against the message; and fails if an op of op_list.def has no case.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/ops/op_def.h"

namespace tessera {

inline ValueType f64(const Shape& shape) {
  return {DType::f64, shape};
}
inline ValueType f32(const Shape& shape) {
  return {DType::f32, shape};
}
inline ValueType i32(const Shape& shape) {
  return {DType::i32, shape};
}

// A small graph in double and what its inputs hold. Floating inputs whose gradient is checked are
// activations (gradients are values of the graph) or parameters (gradients add to accumulators): the
// driver tries both.
class CaseGraph {
 public:
  explicit CaseGraph(Role role_of_reals) : role_of_reals_(role_of_reals) {}

  Graph graph;

  // Normal numbers, a function of the name; their gradient is checked.
  ValueId real(const std::string& name, const Shape& shape, double deviation = 1.0);
  // Uniform integers in [least, most].
  ValueId ids(const std::string& name, const Shape& shape, std::int64_t least, std::int64_t most);
  // Given numbers that are not differentiated.
  ValueId constant(const std::string& name, const ValueType& type, std::vector<double> values);

  struct Input {
    std::string name;
    ValueId id = kNoValue;
    std::vector<double> values;
    bool differentiated = false;
  };
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  Role role_of_reals_;
  std::vector<Input> inputs_;
};

using CaseValues = std::map<std::string, std::vector<double>>;  // inputs by name

struct OpCase {
  std::string name;
  std::function<ValueId(CaseGraph&)> build;                               // the value that is differentiated
  std::function<std::vector<double>(const CaseValues&)> naive = nullptr;  // where no kernel test has one
};

// Inputs that a shape rule must refuse, and what its message must say besides the op and the node.
struct RefusedCase {
  Op op{};
  Attrs attrs;
  std::vector<ValueType> inputs;
  std::vector<std::string> message;
};

struct OpFamily {
  std::vector<OpCase> cases;
  std::vector<RefusedCase> refused;
};

OpFamily elementwise_family();
OpFamily slice_family();
OpFamily matmul_family();
OpFamily softmax_family();
OpFamily embedding_family();
OpFamily add_positions_family();
OpFamily linear_family();
OpFamily rms_norm_family();
OpFamily layer_norm_family();
OpFamily rope_family();
OpFamily attention_family();
OpFamily activation_family();
OpFamily dropout_add_family();
OpFamily cross_entropy_family();
OpFamily optimizer_ops_family();
OpFamily collectives_family();

}  // namespace tessera
