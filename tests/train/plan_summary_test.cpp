#include "tessera/train/plan_summary.h"

#include <gtest/gtest.h>

#include "tessera/train/from_config.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

TEST(PlanSummary, ReadsBackWhatTheJobIs) {
  TinyRun run;
  run.config.parallel.pp = run.config.parallel.tp = 2;
  run.config.pipeline.schedule = ScheduleName::one_f_one_b;
  const auto device = make_device(run.config);
  const auto model = make_model(run.config, 0);
  const JobPlan job = plan_job(*model, training_graph_options(run.config), layout_of(run.config), *device);
  const PlanSummary plan = parse_plan_summary(to_json(summarize(job, *device)), "plan.json");
  EXPECT_EQ(plan.num_parameters, job.num_parameters);
  EXPECT_EQ(std::vector({plan.pp, plan.dp, plan.tp}), std::vector({2, 1, 2}));
  EXPECT_EQ(plan.num_micro_batches, 2);
  ASSERT_EQ(plan.stages.size(), 2u);
  std::int64_t sum = 0;
  for (const MemoryClass& c : memory_classes()) {
    EXPECT_EQ(plan.stages[1].memory.*c.bytes, job.stages[1].memory.*c.bytes) << c.name;
    sum += plan.stages[1].memory.*c.bytes;
  }
  EXPECT_EQ(sum, 2 * plan.stages[1].memory.total) << "the classes add up to the total, which is the last";
  // The same costs give the same timeline.
  const Schedule schedule = make_schedule(plan.schedule, plan.pp, plan.chunks, plan.num_micro_batches);
  EXPECT_DOUBLE_EQ(time_schedule(schedule, plan.cost).makespan, job.timing.makespan);
}

TEST(PlanSummary, RefusesWhatIsNoPlan) {
  expect_error([] { parse_plan_summary("{\"device\": \"cpu\"}", "x/plan.json"); },
               {"x/plan.json", "not the plan of a run", "parameters"});
  expect_error([] { parse_plan_summary("{", "x/plan.json"); }, {"x/plan.json", "not the plan of a run"});
  // A timeline drawn from it would look for stages that are not there.
  const PlanSummary two_stages{.pp = 2, .stages = {{}, {}}, .cost = {{1}, {2}}};
  expect_error([&] { parse_plan_summary(to_json(two_stages), "x/plan.json"); },
               {"x/plan.json", "1 forward and 1 backward stages, expected 2"});
  const PlanSummary idle{.num_micro_batches = 0, .stages = {{}}, .cost = {{1}, {2}}};
  expect_error([&] { parse_plan_summary(to_json(idle), "x/plan.json"); },
               {"x/plan.json", "micro_batches: found 0, expected a number from 1 to "});
  PlanSummary negative{.pp = 2, .stages = {{}, {}}, .cost = {{1, -2}, {2, 2}}};
  expect_error([&] { parse_plan_summary(to_json(negative), "x/plan.json"); },
               {"x/plan.json", "costs: expected finite numbers from 0 on"});
  std::string many = to_json(idle);
  many.replace(many.find("\"pp\": 1"), 7, "\"pp\": 4294967297");
  expect_error([&] { parse_plan_summary(many, "x/plan.json"); }, {"x/plan.json", "pp: found 4294967297"});
}

}  // namespace
}  // namespace tessera
