// PlanSummary: what a run was planned to be: its layout, the memory of every pipeline stage, the pipeline's
// schedule and costs. Written by a run as plan.json, so that its report needs neither the device nor the
// model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/pipeline/schedule_timing.h"
#include "tessera/plan/memory_report.h"
#include "tessera/runtime/device.h"
#include "tessera/train/job_plan.h"

namespace tessera {

struct StageSummary {
  std::int64_t layers = 0;
  std::int64_t in_flight = 0;  // micro-batches whose activations are kept at once
  MemoryReport memory;         // its bytes; parameters and flops are not kept
};

struct PlanSummary {
  std::string device;
  std::int64_t num_parameters = 0;
  int pp = 1, dp = 1, tp = 1;
  bool sequence = false, zero1 = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  int num_micro_batches = 1;
  std::vector<StageSummary> stages;  // by pp coordinate
  ScheduleCost cost;                 // flops by global stage
};

PlanSummary summarize(const JobPlan& job, const Device& device);

// The classes of MemoryReport in the order in which tables show them; the last is the total.
struct MemoryClass {
  const char* name;
  std::int64_t MemoryReport::*bytes;
};
std::span<const MemoryClass> memory_classes();

std::string to_json(const PlanSummary& plan);
PlanSummary parse_plan_summary(const std::string& json,
                               const std::string& source);  // names `source` in errors

}  // namespace tessera
