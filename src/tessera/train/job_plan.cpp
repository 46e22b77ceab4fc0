#include "tessera/train/job_plan.h"

#include "tessera/ops/op_def.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/message_room.h"

namespace tessera {
namespace {

double flops_of(const StagePlan& stage, Phase phase, int chunk) {
  double flops = 0;
  for (const Step& step : stage.plan.program(phase, chunk)) {
    flops += node_cost(stage.graph, stage.graph.node(step.node)).flops;
  }
  return flops;
}

ScheduleTiming time_by_flops(const JobPlan& job) {
  ScheduleCost cost;
  for (int chunk = 0; chunk < job.schedule.num_chunks; ++chunk) {
    for (const StagePlan& stage : job.stages) {
      cost.forward.push_back(flops_of(stage, Phase::forward, chunk));
      cost.backward.push_back(flops_of(stage, Phase::backward, chunk));
    }
  }
  return time_schedule(job.schedule, cost);
}

}  // namespace

JobPlan plan_job(const Model& model, const TrainingGraphOptions& options, const Layout& layout,
                 const Device& device) {
  TrainingGraphOptions whole = options;
  whole.shape.batch *= layout.mesh.dp;
  const BuiltGraph built = build_training_graph(model, whole);
  JobPlan job;
  job.folded = built.folded_text();
  const int num_layers = built.graph.num_layers();
  job.layout = resolved(layout, num_layers);
  for (const Parameter& parameter : built.parameters) job.num_parameters += parameter.type.shape.num_elems();
  const std::vector<int> stage_of_layer = stages_of_layers(built.graph, job.layout);
  const Partitioned partitioned = partition_layout(built.graph, job.layout, stage_of_layer);
  job.state = partitioned.state;
  const int pp = job.layout.mesh.pp;
  job.schedule = make_schedule(job.layout.schedule, pp, job.layout.chunks, job.layout.num_micro_batches);
  job.proof = check_schedule(job.schedule);
  for (int rank = 0; rank < pp; ++rank) {
    RankStages mine = rank_stages(partitioned, job.layout, stage_of_layer, rank);
    StagePlan stage;
    for (int layer = 0; layer < num_layers; ++layer) {
      if (stage_of_layer.empty() || stage_of_layer[static_cast<std::size_t>(layer)] % pp == rank)
        stage.layers.push_back(layer);
    }
    stage.plan =
        plan_on(device, mine.graph, {.num_slots = job.schedule.slots_needed[static_cast<std::size_t>(rank)]});
    stage.memory = report_memory(mine.graph, stage.plan);
    stage.traffic = report_traffic(mine.graph, mine.messages, job.layout.num_micro_batches);
    for (const MessageRoom& room : message_rooms(job.schedule, rank, mine.messages, mine.graph))
      stage.message_bytes += room.count * room.bytes;
    stage.graph = std::move(mine.graph);
    job.stages.push_back(std::move(stage));
  }
  job.timing = time_by_flops(job);
  return job;
}

}  // namespace tessera
