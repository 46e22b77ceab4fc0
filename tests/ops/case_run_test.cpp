#include "ops/case_run.h"

#include "tessera/autodiff/differentiate.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

constexpr std::uint64_t kSeed = 20240601;

std::vector<double> normal_numbers(const std::string& stream, std::int64_t count, double deviation) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(deviation * philox_normal(kSeed, name_hash(stream), static_cast<std::uint64_t>(i)));
  }
  return values;
}

std::vector<double> doubles(const TensorView& view) {
  const auto elems = view.as<double>();
  return {elems.begin(), elems.end()};
}

bool is_loss(const Graph& graph, ValueId value) {
  return op_def(graph.node(graph.value(value).producer).op).loss;
}

}  // namespace

ValueId CaseGraph::real(const std::string& name, const Shape& shape, double deviation) {
  const ValueId id = graph.add_input(name, f64(shape), role_of_reals_);
  inputs_.push_back({name, id, normal_numbers(name, shape.num_elems(), deviation), true});
  return id;
}

ValueId CaseGraph::ids(const std::string& name, const Shape& shape, std::int64_t least, std::int64_t most) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
    const std::uint32_t bits = philox(kSeed, static_cast<std::uint64_t>(i), name_hash(name))[0];
    values.push_back(static_cast<double>(least + bits % (most - least + 1)));
  }
  return constant(name, i32(shape), values);
}

ValueId CaseGraph::constant(const std::string& name, const ValueType& type, std::vector<double> values) {
  const ValueId id = graph.add_input(name, type, Role::batch);
  inputs_.push_back({name, id, std::move(values), false});
  return id;
}

Graph compose_fused(const Graph& from, ValueId& out) {
  Graph to;
  std::vector<ValueId> ids(static_cast<std::size_t>(from.num_values()), kNoValue);
  for (ValueId v = 0; v < from.num_values(); ++v) {
    const Value& value = from.value(v);
    if (value.producer == kNoNode) {
      ids[static_cast<std::size_t>(v)] = to.add_input(value.name, value.type, value.role);
    }
  }
  for (Node node : from.nodes()) {
    for (ValueId& input : node.inputs) input = ids[static_cast<std::size_t>(input)];
    const auto compose = op_def(node.op).compose;
    std::vector<ValueId> outputs = compose ? compose(to, node) : std::vector<ValueId>{};
    if (outputs.empty()) outputs = emit(to, node.op, node.phase, node.name, node.attrs, node.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      ids[static_cast<std::size_t>(node.outputs[i])] = outputs[i];
  }
  out = ids[static_cast<std::size_t>(out)];
  return to;
}

CaseRun::CaseRun(const OpCase& op_case, Role role_of_reals, Fusion fusion, Device& device)
    : case_graph_(role_of_reals) {
  ValueId out = op_case.build(case_graph_);
  Graph graph = fusion == Fusion::composed ? compose_fused(case_graph_.graph, out) : case_graph_.graph;
  graph.mark_output("y", out);
  if (is_loss(graph, out)) {
    const Gradients gradients = differentiate(graph, out);
    graph.mark_output("loss", gradients.loss);
    cotangent_ = {1.0};
  } else {
    cotangent_ = normal_numbers("cotangent", graph.type(out).shape.num_elems(), 1.0);
    const GradientSeed seed{out, graph.add_input("cotangent", graph.type(out), Role::batch)};
    std::vector<ValueId> wanted;
    for (const CaseGraph::Input& input : inputs()) {
      if (input.differentiated && role_of_reals != Role::parameter)
        wanted.push_back(graph.find_input(input.name));
    }
    const Gradients gradients = differentiate(graph, std::span(&seed, 1), wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      graph.mark_output("grad." + graph.value(wanted[i]).name, gradients.wanted[i]);
    }
  }
  Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); });
  executor_ = std::make_unique<Executor>(std::move(graph), std::move(plan), device);
  for (const CaseGraph::Input& input : inputs()) write(input.name, input.values);
  if (executor_->graph().find_input("cotangent") != kNoValue) write("cotangent", cotangent_);
}

void CaseRun::write(const std::string& input, const std::vector<double>& values) {
  if (executor_->input(input).dtype == DType::i32) {
    const std::vector<std::int32_t> integers(values.begin(), values.end());
    executor_->write<std::int32_t>(input, integers);
  } else {
    executor_->write<double>(input, values);
  }
}

std::vector<double> CaseRun::forward() {
  executor_->run(Phase::forward);
  return doubles(executor_->output("y"));
}

double CaseRun::objective() {
  const std::vector<double> y = forward();
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * cotangent_[i];
  return sum;
}

std::vector<std::vector<double>> CaseRun::gradients() {
  std::vector<std::vector<double>> result;
  std::vector<std::vector<double>> starts;
  for (const CaseGraph::Input& input : inputs()) {
    const std::string name = "grad." + input.name;
    starts.push_back(normal_numbers(name, static_cast<std::int64_t>(input.values.size()), 1.0));
    if (graph().find_input(name) != kNoValue) write(name, starts.back());
  }
  executor_->run(Phase::forward);
  executor_->run(Phase::backward);
  for (std::size_t i = 0; i < inputs().size(); ++i) {
    if (!inputs()[i].differentiated) continue;
    const std::string name = "grad." + inputs()[i].name;
    const bool accumulates = graph().find_input(name) != kNoValue;
    result.push_back(doubles(accumulates ? executor_->input(name) : executor_->output(name)));
    if (!accumulates) continue;
    for (std::size_t k = 0; k < result.back().size(); ++k) result.back()[k] -= starts[i][k];
  }
  return result;
}

CaseValues CaseRun::values() const {
  CaseValues values;
  for (const CaseGraph::Input& input : inputs()) values[input.name] = input.values;
  return values;
}

}  // namespace tessera
