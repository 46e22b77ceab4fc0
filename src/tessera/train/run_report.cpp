#include "tessera/train/run_report.h"

#include <cmath>
#include <ctime>
#include <functional>
#include <optional>

#include "tessera/base/atomic_file.h"
#include "tessera/base/mapped_file.h"
#include "tessera/metrics/curve_svg.h"
#include "tessera/metrics/html_page.h"
#include "tessera/metrics/human.h"
#include "tessera/metrics/jsonl_log.h"
#include "tessera/metrics/markup.h"
#include "tessera/metrics/results_json.h"
#include "tessera/pipeline/timeline.h"
#include "tessera/train/plan_summary.h"
#include "tessera/train/run_config.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct RecordedRun {
  std::string name;
  std::string config_yaml;
  RunConfig config;
  std::vector<StepReport> reports;  // at least one
  std::optional<PlanSummary> plan;
  bool last_line_cut = false;
};

bool lacks_last_newline(const fs::path& file) {
  const std::string text = read_file(file);
  return !text.empty() && text.back() != '\n';
}

RecordedRun open_run_folder(const fs::path& folder) {
  TS_CHECK(fs::is_directory(folder), "{}: found no such folder, expected the folder of a run",
           folder.string());
  for (const char* file : {kRunConfigFile, kMetricsFile}) {
    TS_CHECK(fs::exists(folder / file), "{}: found no {}, expected the folder of a run (train.out)",
             folder.string(), file);
  }
  RecordedRun run;
  run.name = fs::weakly_canonical(folder).filename().string();
  run.config_yaml = read_file(folder / kRunConfigFile);
  apply_yaml(run.config, run.config_yaml, (folder / kRunConfigFile).string());
  run.reports = read_jsonl_log(folder / kMetricsFile);
  TS_CHECK(!run.reports.empty(), "{}: found no finished step, nothing to report yet",
           (folder / kMetricsFile).string());
  run.last_line_cut = lacks_last_newline(folder / kMetricsFile);
  if (const fs::path plan = folder / kPlanFile; fs::exists(plan))
    run.plan = parse_plan_summary(read_file(plan), plan.string());
  return run;
}

std::string utc_text(double wall_time) {
  const auto seconds = static_cast<std::time_t>(wall_time);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min);
}

std::string heading(const RecordedRun& run) {
  const StepReport& last = run.reports.back();
  const bool finished = last.step >= last.total_steps;
  std::string html = fmt::format("<h1>{}</h1>\n<p class=\"{}\">{} {} of {} steps", escaped_markup(run.name),
                                 finished ? "good" : "warn",
                                 finished ? "finished:" : "not finished:", last.step, last.total_steps);
  if (last.wall_time > 0) html += fmt::format("; the last ended {}", utc_text(last.wall_time));
  html += "</p>\n";
  if (run.last_line_cut)
    html +=
        fmt::format("<p class=\"warn\">The last line of {} was cut off and is left out.</p>\n", kMetricsFile);
  return html;
}

const StepReport* last_evaluated(const std::vector<StepReport>& reports) {
  for (std::size_t i = reports.size(); i-- > 0;)
    if (reports[i].eval_loss) return &reports[i];
  return nullptr;
}

std::string tiles(const RecordedRun& run) {
  const StepReport& last = run.reports.back();
  const TrainKeys& train = run.config.train;
  std::vector<NumberTile> tiles{
      {"loss", fmt::format("{:.4f}", last.loss), fmt::format("at step {}", last.step)}};
  if (const StepReport* evaluated = last_evaluated(run.reports)) {
    const double perplexity = evaluated->eval_perplexity.value_or(std::exp(*evaluated->eval_loss));
    tiles.push_back({"validation loss", fmt::format("{:.4f}", *evaluated->eval_loss),
                     fmt::format("perplexity {:.2f}", perplexity)});
  }
  const ThroughputSummary speed = summarize_throughput(run.reports, train.global_batch);
  const auto tokens = [&](double sequences) { return sequences * static_cast<double>(train.seq_len); };
  tiles.push_back({"average tokens/s", human_count(tokens(speed.average)),
                   fmt::format("{:.4g} sequences/s", speed.average)});
  tiles.push_back({"peak tokens/s", human_count(tokens(speed.peak)), "mean of ten steps"});
  if (last.peak_share > 0) {
    tiles.push_back(
        {"of the device's peak", fmt::format("{:.1f} %", 100 * last.peak_share), "last ten steps"});
  }
  tiles.push_back({"tokens trained on", human_count(tokens(static_cast<double>(last.consumed_samples))),
                   fmt::format("{} sequences", last.consumed_samples)});
  tiles.push_back({"time in steps", human_duration(speed.seconds),
                   fmt::format("{:.3g} s a step", speed.seconds / static_cast<double>(run.reports.size()))});
  tiles.push_back({"gradient norm", fmt::format("{:.3f}", last.grad_norm), "before clipping"});
  if (run.plan) {
    const std::int64_t ranks = std::int64_t{run.plan->pp} * run.plan->dp * run.plan->tp;
    tiles.push_back({"parameters", human_count(static_cast<double>(run.plan->num_parameters)),
                     fmt::format("on {} rank{} ({})", ranks, ranks == 1 ? "" : "s", run.plan->device)});
  }
  return html_tiles(tiles);
}

std::string chart_of(const RecordedRun& run, const char* title, const char* unit, bool noisy,
                     const std::function<double(const StepReport&)>& value) {
  CurveSeries series{noisy ? "smoothed" : "last", {}, noisy};
  for (const StepReport& report : run.reports)
    series.points.push_back({static_cast<double>(report.step), value(report)});
  return curve_svg({title, "step", unit, {std::move(series)}});
}

std::string charts(const RecordedRun& run) {
  CurveChart loss = loss_chart("Loss", run.reports);
  loss.y_label = "nats per scored token";
  std::string html = curve_svg(loss);
  html += chart_of(run, "Learning rate", "learning rate", false, [](auto& r) { return r.learning_rate; });
  html += chart_of(run, "Gradient norm", "norm before clipping", true, [](auto& r) { return r.grad_norm; });
  html += chart_of(run, "Throughput", "tokens/s, mean of ten steps", false,
                   [](auto& r) { return r.tokens_per_second; });
  if (run.reports.back().parameter_norm) {
    html += chart_of(run, "Parameter norm", "norm of all weights", false,
                     [](auto& r) { return r.parameter_norm.value_or(std::nan("")); });
  }
  return html_section("Curves", fmt::format("<div class=\"charts\">\n{}</div>\n", html));
}

std::string layout(const RecordedRun& run, const PlanSummary& plan) {
  const TrainKeys& train = run.config.train;
  const auto on_off = [](bool on) -> std::string { return on ? "on" : "off"; };
  HtmlTable table;
  table.rows = {{"ranks", fmt::format("{} = pp {} x dp {} x tp {}", std::int64_t{plan.pp} * plan.dp * plan.tp,
                                      plan.pp, plan.dp, plan.tp)},
                {"sequence parallel", on_off(plan.sequence)},
                {"ZeRO-1", on_off(plan.zero1)},
                {"batch", fmt::format("{} = {} x {} accumulated x dp {}", train.global_batch,
                                      train.micro_batch, plan.num_micro_batches, plan.dp)},
                {"sequence length", fmt::format("{} tokens", train.seq_len)},
                {"recompute", run.config.recompute},
                {"device", plan.device}};
  return html_section("Layout", html_table(table));
}

std::string memory(const PlanSummary& plan) {
  HtmlTable table;
  table.header = {"planned bytes of a rank"};
  for (std::size_t i = 0; i < plan.stages.size(); ++i)
    table.header.push_back(plan.stages.size() == 1 ? "bytes" : fmt::format("stage {}", i));
  for (const MemoryClass& c : memory_classes()) {
    std::vector<std::string> row{c.name};
    for (const StageSummary& stage : plan.stages)
      row.push_back(human_bytes(static_cast<double>(stage.memory.*c.bytes)));
    table.rows.push_back(std::move(row));
  }
  table.last_is_total = true;
  return html_section("Memory", html_table(table));
}

// All of a long step would be a grey band: the middle, where every micro-batch looks alike, is drawn shorter.
std::string pipeline(const PlanSummary& plan) {
  if (plan.pp == 1) return "";
  const auto timed = [&](int micro_batches) {
    const Schedule schedule = make_schedule(plan.schedule, plan.pp, plan.chunks, micro_batches);
    return std::pair(schedule, time_schedule(schedule, plan.cost));
  };
  const int drawn = std::min(plan.num_micro_batches, std::max(16, 2 * plan.pp));
  std::string text =
      fmt::format("<p>{}, {} ranks of {} stage{}, {} micro-batches; the ranks wait {:.2f} % of the time.",
                  schedule_name(plan.schedule), plan.pp, plan.chunks, plan.chunks == 1 ? "" : "s",
                  plan.num_micro_batches, 100 * timed(plan.num_micro_batches).second.bubble_fraction());
  text += " Blue: forward, orange: backward, by number of micro-batch.";
  if (drawn < plan.num_micro_batches)
    text += fmt::format(" Drawn with {} micro-batches, where waiting weighs more.", drawn);
  const auto [schedule, timing] = timed(drawn);
  return html_section("Pipeline", text + "</p>\n" + timeline_svg(schedule, timing));
}

}  // namespace

std::string run_report_html(const fs::path& run_folder) {
  const RecordedRun run = open_run_folder(run_folder);
  std::string body = heading(run) + tiles(run) + charts(run);
  if (run.plan) body += layout(run, *run.plan) + memory(*run.plan) + pipeline(*run.plan);
  body += html_section("Config", fmt::format("<pre>{}</pre>\n", escaped_markup(run.config_yaml)));
  return html_page(run.name, body);
}

void write_run_report(const fs::path& run_folder, const fs::path& out) {
  write_file(out, run_report_html(run_folder));
}

}  // namespace tessera
