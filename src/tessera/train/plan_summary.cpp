#include "tessera/train/plan_summary.h"

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostRanks = 1 << 20, kMostMicroBatches = 1 << 24;

// The costs that the job's timing was made with.
ScheduleCost costs_of(const JobPlan& job) {
  ScheduleCost cost;
  cost.forward.resize(static_cast<std::size_t>(job.schedule.num_global_stages()));
  cost.backward.resize(cost.forward.size());
  for (std::size_t rank = 0; rank < job.schedule.ranks.size(); ++rank) {
    const std::vector<Instruction>& list = job.schedule.ranks[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_compute()) continue;
      const int stage = job.schedule.global_stage(static_cast<int>(rank), list[i].chunk);
      auto& costs = list[i].kind == Instruction::forward ? cost.forward : cost.backward;
      const TimeSpan& span = job.timing.spans[rank][i];
      costs[static_cast<std::size_t>(stage)] = span.end - span.begin;
    }
  }
  return cost;
}

Json stage_json(const StageSummary& stage) {
  Json json;
  json["layers"] = stage.layers;
  json["micro_batches_in_flight"] = stage.in_flight;
  for (const MemoryClass& c : memory_classes()) json["memory"][c.name] = stage.memory.*c.bytes;
  return json;
}

StageSummary stage_of(const Json& json) {
  StageSummary stage;
  stage.layers = json.at("layers");
  stage.in_flight = json.at("micro_batches_in_flight");
  for (const MemoryClass& c : memory_classes()) stage.memory.*c.bytes = json.at("memory").at(c.name);
  return stage;
}

int count_at(const Json& object, const char* name, std::uint64_t most) {
  const Json& value = object.at(name);
  TS_CHECK(
      value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= most,
      "{}: found {}, expected a number from 1 to {}", name, value.dump(), most);
  return value.get<int>();
}

PlanSummary plan_of(const Json& json) {
  PlanSummary plan;
  plan.device = json.at("device");
  plan.num_parameters = json.at("parameters");
  const Json& layout = json.at("layout");
  plan.pp = count_at(layout, "pp", kMostRanks);
  plan.dp = count_at(layout, "dp", kMostRanks);
  plan.tp = count_at(layout, "tp", kMostRanks);
  plan.sequence = layout.at("sequence");
  plan.zero1 = layout.at("zero1");
  const Json& pipeline = json.at("pipeline");
  plan.schedule = parse_schedule_kind(pipeline.at("schedule").get<std::string>());
  plan.chunks = count_at(pipeline, "chunks", kMostRanks);
  plan.num_micro_batches = count_at(pipeline, "micro_batches", kMostMicroBatches);
  plan.cost.forward = pipeline.at("forward_flops").get<std::vector<double>>();
  plan.cost.backward = pipeline.at("backward_flops").get<std::vector<double>>();
  for (const Json& stage : json.at("stages")) plan.stages.push_back(stage_of(stage));
  return plan;
}

}  // namespace

std::span<const MemoryClass> memory_classes() {
  static constexpr MemoryClass kClasses[] = {{"weights", &MemoryReport::weights},
                                             {"gradients", &MemoryReport::gradients},
                                             {"optimizer state", &MemoryReport::optimizer_state},
                                             {"activations kept", &MemoryReport::activations_kept},
                                             {"temporaries", &MemoryReport::temporaries},
                                             {"logits", &MemoryReport::logits},
                                             {"constants, alignment", &MemoryReport::constants},
                                             {"total", &MemoryReport::total}};
  return kClasses;
}

PlanSummary summarize(const JobPlan& job, const Device& device) {
  const Layout& layout = job.layout;
  PlanSummary plan;
  plan.device = std::string(device.name());
  plan.num_parameters = job.num_parameters;
  plan.pp = layout.mesh.pp;
  plan.dp = layout.mesh.dp;
  plan.tp = layout.mesh.tp;
  plan.sequence = layout.sequence;
  plan.zero1 = layout.zero1;
  plan.schedule = job.schedule.kind;
  plan.chunks = job.schedule.num_chunks;
  plan.num_micro_batches = job.schedule.num_micro_batches;
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    plan.stages.push_back({static_cast<std::int64_t>(job.stages[i].layers.size()),
                           job.proof.peak_in_flight[i], job.stages[i].memory});
  }
  plan.cost = costs_of(job);
  return plan;
}

std::string to_json(const PlanSummary& plan) {
  Json json;
  json["device"] = plan.device;
  json["parameters"] = plan.num_parameters;
  json["layout"] = {
      {"pp", plan.pp}, {"dp", plan.dp}, {"tp", plan.tp}, {"sequence", plan.sequence}, {"zero1", plan.zero1}};
  json["pipeline"] = {{"schedule", schedule_name(plan.schedule)},
                      {"chunks", plan.chunks},
                      {"micro_batches", plan.num_micro_batches},
                      {"forward_flops", plan.cost.forward},
                      {"backward_flops", plan.cost.backward}};
  for (const StageSummary& stage : plan.stages) json["stages"].push_back(stage_json(stage));
  return json.dump(2) + "\n";
}

PlanSummary parse_plan_summary(const std::string& text, const std::string& source) {
  try {
    PlanSummary plan = plan_of(parse_ordered_json(text));
    TS_CHECK(plan.stages.size() == static_cast<std::size_t>(plan.pp), "found {} stages, expected {}",
             plan.stages.size(), plan.pp);
    const auto global_stages = plan.stages.size() * static_cast<std::size_t>(plan.chunks);
    TS_CHECK(plan.cost.forward.size() == global_stages && plan.cost.backward.size() == global_stages,
             "found the flops of {} forward and {} backward stages, expected {}", plan.cost.forward.size(),
             plan.cost.backward.size(), global_stages);
    // For what these refuse.
    if (plan.pp > 1)
      time_schedule(make_schedule(plan.schedule, plan.pp, plan.chunks, plan.num_micro_batches), plan.cost);
    return plan;
  } catch (const std::exception& error) {
    fail("{}: not the plan of a run: {}", source, error.what());
  }
}

}  // namespace tessera
