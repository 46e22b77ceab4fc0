// Runs the cases of all families; see op_check.h.
#include "ops/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/case_run.h"
#include "tessera/backend/cpu/cpu_device.h"

namespace tessera {
namespace {

std::vector<OpFamily> all_families() {
  return {elementwise_family(), slice_family(),         matmul_family(),        softmax_family(),
          embedding_family(),   add_positions_family(), linear_family(),        rms_norm_family(),
          layer_norm_family(),  rope_family(),          attention_family(),     activation_family(),
          dropout_add_family(), cross_entropy_family(), optimizer_ops_family(), collectives_family()};
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (OpFamily& family : all_families()) {
    cases.insert(cases.end(), family.cases.begin(), family.cases.end());
  }
  return cases;
}

double largest(const std::vector<double>& values) {
  double size = 0;
  for (double v : values) size = std::max(size, std::abs(v));
  return size;
}

// |found - wanted| <= tolerance * (1 + largest |wanted|)
void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  const double bound = tolerance * (1 + largest(wanted));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - wanted[i]), bound)
        << "element " << i << ": found " << found[i] << ", expected " << wanted[i];
  }
}

// Five points: the error is of fourth order, about 1e-11 at this step, with as much from rounding.
std::vector<double> finite_differences(CaseRun& run, const CaseGraph::Input& input) {
  constexpr double kStep = 1e-3;
  std::vector<double> values = input.values, result;
  const auto at = [&](std::size_t i, double x) {
    values[i] = x;
    run.write(input.name, values);
    return run.objective();
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    const double near = at(i, x + kStep) - at(i, x - kStep);
    const double far = at(i, x + 2 * kStep) - at(i, x - 2 * kStep);
    result.push_back((8 * near - far) / (12 * kStep));
    values[i] = x;
  }
  run.write(input.name, values);
  return result;
}

// Losses are differentiated with respect to parameters only.
std::vector<Role> roles_to_try(const OpCase& op_case) {
  CaseGraph c(Role::parameter);
  const ValueId out = op_case.build(c);
  const bool loss = op_def(c.graph.node(c.graph.value(out).producer).op).loss;
  return loss ? std::vector<Role>{Role::parameter} : std::vector<Role>{Role::parameter, Role::batch};
}

TEST(EveryOp, GradientIsThatOfFiniteDifferences) {
  const auto device = make_cpu_device(2);
  for (const OpCase& op_case : all_cases()) {
    SCOPED_TRACE(op_case.name);
    std::vector<std::vector<double>> wanted;
    for (Role role : roles_to_try(op_case)) {
      SCOPED_TRACE(role_name(role));
      CaseRun run(op_case, role, CaseRun::Fusion::fused, *device);
      if (wanted.empty()) {
        for (const CaseGraph::Input& input : run.inputs()) {
          if (input.differentiated) wanted.push_back(finite_differences(run, input));
        }
      }
      const std::vector<std::vector<double>> found = run.gradients();
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], wanted[i], 2e-9);
    }
  }
}

TEST(EveryOp, ForwardIsThatOfTheNaiveLoop) {
  const auto device = make_cpu_device(2);
  for (const OpCase& op_case : all_cases()) {
    if (!op_case.naive) continue;
    SCOPED_TRACE(op_case.name);
    CaseRun run(op_case, Role::parameter, CaseRun::Fusion::fused, *device);
    expect_near(run.forward(), op_case.naive(run.values()), 1e-13);
  }
}

TEST(EveryOp, FusedIsItsComposition) {
  const auto device = make_cpu_device(2);
  std::set<Op> compared;
  for (const OpCase& op_case : all_cases()) {
    CaseGraph c(Role::parameter);
    op_case.build(c);
    for (const Node& node : c.graph.nodes()) {
      if (op_def(node.op).compose) compared.insert(node.op);
    }
    SCOPED_TRACE(op_case.name);
    CaseRun fused(op_case, Role::parameter, CaseRun::Fusion::fused, *device);
    CaseRun composed(op_case, Role::parameter, CaseRun::Fusion::composed, *device);
    expect_near(fused.forward(), composed.forward(), 1e-12);
    const auto found = fused.gradients(), wanted = composed.gradients();
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], wanted[i], 1e-12);
  }
  for (int op = 0; op < kNumOps; ++op) {
    if (!op_def(static_cast<Op>(op)).compose) continue;
    EXPECT_TRUE(compared.contains(static_cast<Op>(op))) << op_name(static_cast<Op>(op)) << " has no case";
  }
}

// The message a shape rule gives for these inputs, empty if it accepts them.
std::string refusal(Op op, const Attrs& attrs, const std::vector<ValueType>& inputs) {
  try {
    op_def(op).infer({op, "layers.3.node", attrs, inputs});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(EveryOp, ShapeRuleNamesOpNodeAndWhatIsWrong) {
  std::set<Op> refused;
  for (const OpFamily& family : all_families()) {
    for (const RefusedCase& wrong : family.refused) {
      refused.insert(wrong.op);
      const std::string message = refusal(wrong.op, wrong.attrs, wrong.inputs);
      std::vector<std::string> parts = wrong.message;
      parts.push_back("[" + std::string(op_name(wrong.op)) + "] layers.3.node: ");
      for (const std::string& part : parts) {
        EXPECT_NE(message.find(part), std::string::npos)
            << op_name(wrong.op) << ": \"" << message << "\" does not say \"" << part << "\"";
      }
    }
  }
  for (int op = 0; op < kNumOps; ++op) {
    EXPECT_TRUE(refused.contains(static_cast<Op>(op))) << op_name(static_cast<Op>(op)) << " has no case";
  }
}

TEST(EveryOp, ShapeRuleCountsItsInputs) {
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<Op>(i);
    // Rules count before they look at attributes, so that none are needed here.
    const bool takes_none = op == Op::zeros || op == Op::rope_table || op == Op::causal_mask;
    const bool is_bucket = op == Op::all_reduce || op == Op::reduce_scatter_flat || op == Op::all_gather_flat;
    const bool is_join = op == Op::sum_squares || op == Op::sum_scalars || op == Op::stack_scalars;
    const bool takes_any = op == Op::concat || is_join || is_bucket;
    const std::string who = "[" + std::string(op_name(op)) + "] layers.3.node: ";
    if (!takes_none) {
      const std::string message = refusal(op, {}, {});
      EXPECT_NE(message.find(who + (takes_any ? "needs at least" : "found 0 inputs")), message.npos)
          << message;
    }
    if (!takes_any) {
      const std::string message = refusal(op, {}, std::vector<ValueType>(9, f64({2, 2})));
      EXPECT_NE(message.find(who + "found 9 inputs"), message.npos) << message;
    }
  }
}

// A differentiable op must be differentiated in some case; a gradient op, or one that only occurs in
// backward passes or as a constant, must occur in the graph of some case.
TEST(EveryOp, HasACase) {
  const std::set<Op> tested_as_update = {Op::sum_squares, Op::sum_scalars, Op::stack_scalars,
                                         Op::clip_factor, Op::adamw,       Op::lamb_direction,
                                         Op::lamb,        Op::sgd};  // tests/optim
  const std::set<Op> collectives = {Op::all_reduce,          Op::all_gather,     Op::reduce_scatter,
                                    Op::shard_slice,         Op::keep_first,     Op::reduce_copies,
                                    Op::reduce_scatter_flat, Op::all_gather_flat};  // tests/partition
  const auto device = make_cpu_device(1);
  std::set<Op> forward, anywhere = tested_as_update;
  anywhere.insert(collectives.begin(), collectives.end());
  anywhere.insert(Op::cached_attention);  // changes its inputs: tests/backend_cpu
  for (const OpCase& op_case : all_cases()) {
    for (Role role : roles_to_try(op_case)) {
      const CaseRun run(op_case, role, CaseRun::Fusion::fused, *device);
      for (const Node& node : run.graph().nodes()) {
        anywhere.insert(node.op);
        if (node.phase == Phase::forward) forward.insert(node.op);
      }
    }
  }
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<Op>(i);
    const std::set<Op>& covered = op_def(op).grad ? forward : anywhere;
    EXPECT_TRUE(covered.contains(op)) << op_name(op) << " has no case: add one to tests/ops";
  }
}

}  // namespace
}  // namespace tessera
