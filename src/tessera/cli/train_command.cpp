#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/terminal.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/shrink.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

// A signal handler can reach nothing else.
std::atomic<std::int64_t> g_asked_at{0};  // to end, by a clock that does not stop, in ns; 0: not yet
std::atomic<bool> g_speaks{false};        // rank 0 runs in this process

// Asks for the end of the step. Returns how long ago somebody did so first, in ns; 0: nobody.
std::int64_t ask_for_the_end() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  std::int64_t before = 0;
  return g_asked_at.compare_exchange_strong(before, now) ? 0 : std::max<std::int64_t>(1, now - before);
}

// The first Ctrl-C asks for the end of the step; the second ends at once. What comes within a second of the
// first is the same one: `timeout` sends its signal to the program and to its group, of which that is one.
void on_interrupt(int signal) {
  constexpr std::int64_t kTogether = 1'000'000'000;
  const std::int64_t since = ask_for_the_end();
  if (since >= kTogether) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (since > 0) return;
  constexpr std::string_view kText = "\nfinishing this step, then saving; once more ends at once\n";
  const int saved = errno;  // of the thread that was interrupted
  if (g_speaks && ::write(STDERR_FILENO, kText.data(), kText.size()) < 0) errno = saved;  // nobody reads it
}

// A terminal that closes says so more than once, by its shell and by itself; so may a launcher.
void on_hangup(int) {
  ask_for_the_end();
}

void listen_to_signals() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (std::signal(SIGHUP, on_hangup) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
  std::signal(SIGUSR1, on_hangup);
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the log any more
}

void print_results(const RunConfig& config, const TrainSummary& summary) {
  std::printf("trained %lld steps, loss %.4f", static_cast<long long>(summary.steps_done), summary.last_loss);
  if (!std::isnan(summary.last_eval_loss)) {
    std::printf(", validation loss %.4f (perplexity %.2f)", summary.last_eval_loss,
                summary.last_eval_perplexity);
  }
  const std::string& out = config.train.out;
  fmt::print(
      "\ncheckpoint  {}\ncurves      {}/loss.svg\nmetrics     {}/metrics.jsonl\nreport      {}/report.html\n",
      summary.checkpoint, out, out, out);
  if (config.metrics.tensorboard)
    fmt::print("events      {0}/tensorboard  (tensorboard --logdir {0}/tensorboard)\n", out);
}

}  // namespace

int train_command(int argc, const char* const* argv) {
  std::string path;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> shrink;
  bool resume = false;
  Options options("tessera train", "Train a model as CONFIG says.");
  options.positional("CONFIG", &path, "the run's YAML file");
  options.flag("--resume", &resume,
               "go on from the newest checkpoint in train.out, from the beginning if there is none");
  options.option(
      "--shrink RANKS", &shrink,
      "make CONFIG small enough for a laptop, on so many ranks: same structure, few of everything");
  options.rest(
      "key=value", &overrides,
      "change keys of CONFIG, e.g. train.steps=100; lists as data.texts=a.txt,b.txt or '[a.txt, b.txt]'");
  options.footer("Keys:\n" + describe_run_config());
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  std::vector<std::string> changes;  // of shrinking
  const RunConfig config =
      load_shrunk_config(path, overrides, shrink, [&](const std::string& line) { changes.push_back(line); });

  listen_to_signals();
  ProgressOptions progress = progress_options("train", config.train.steps);
  progress.line_seconds = std::numeric_limits<double>::infinity();  // log_every decides
  ProgressBar bar(stderr, progress);
  TrainCallbacks callbacks;
  callbacks.message = [&](const std::string& text) { bar.print_line(text); };
  callbacks.step = [&](const StepReport& r) {
    bar.update(r.step, step_status(r, config.metrics.tags), r.seconds_left);
    const bool due = r.step % config.train.log_every == 0 || r.step == 1 || r.step == r.total_steps;
    if (r.eval_loss || (due && !bar.terminal())) bar.print_line(step_line(r, config.metrics.tags));
  };
  callbacks.stop_requested = [] { return g_asked_at.load() != 0; };
  TrainSummary summary;
  const bool under_mpi = launched_by_mpi(std::getenv);
  run_ranks(config, under_mpi, [&](Communicator* world) {
    const bool first = world == nullptr || world->rank() == 0;
    if (first) g_speaks = true;
    for (const std::string& line : changes) {
      if (first) callbacks.message(line);
    }
    const TrainSummary mine = train(config, resume, callbacks, world);
    if (first) summary = mine;  // of local ranks only the first may write here
  });
  if (!g_speaks) return 0;  // rank 0's code is the run's: a launcher that sees another's ends rank 0 for it
  if (summary.stopped_early) {
    const bool all_done = summary.steps_done == config.train.steps;
    bar.print_line(
        fmt::format("interrupted: finished step {} and saved {}; {}", summary.steps_done, summary.checkpoint,
                    all_done ? "it was the last, and tessera eval evaluates it" : "go on with --resume"));
    return 130;
  }
  bar.finish(fmt::format("{} {:.4f}", config.metrics.tags == MetricTags::nemo ? "reduced_train_loss" : "loss",
                         summary.last_loss));
  print_results(config, summary);
  return 0;
}

}  // namespace tessera
