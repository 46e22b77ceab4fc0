// JobPlan: a whole job before it runs: every distinct rank's graph, plan, memory and traffic, and the
// pipeline's schedule with its proof. All ranks of a pipeline stage are alike, so a job of thousands of ranks
// has as many plans as stages. Made by `tessera plan`; nothing is allocated.
#pragma once

#include <vector>

#include "tessera/models/model.h"
#include "tessera/partition/traffic_report.h"
#include "tessera/pipeline/schedule_check.h"
#include "tessera/pipeline/schedule_timing.h"
#include "tessera/plan/memory_report.h"
#include "tessera/runtime/device.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/layout.h"

namespace tessera {

// What the ranks with one pp coordinate run.
struct StagePlan {
  std::vector<int> layers;  // that it holds
  Graph graph;
  Plan plan;
  MemoryReport memory;
  std::int64_t message_bytes = 0;  // on their way at once, beside the arena (message_room.h)
  std::vector<TrafficLine> traffic;
};

struct JobPlan {
  Layout layout;
  std::int64_t num_parameters = 0;
  std::string folded;  // what constant folding turned into fused ops; empty: nothing
  std::vector<PlacedTensor> state;
  std::vector<StagePlan> stages;  // by pp coordinate
  Schedule schedule;
  ScheduleProof proof;
  ScheduleTiming timing;  // with the flops of the stages as times
};

JobPlan plan_job(const Model& model, const TrainingGraphOptions& options, const Layout& layout,
                 const Device& device);

}  // namespace tessera
