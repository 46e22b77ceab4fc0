// The program: finds the command, prints what it throws.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/printable.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/fatal_signals.h"
#include "tessera/cli/options.h"
#include "tessera/train/nearest_name.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(int argc, const char* const* argv);
  std::string_view summary;
};

constexpr Command kCommands[] = {
    {"train", tessera::train_command, "train a model as a YAML file says"},
    {"plan", tessera::plan_command, "print a step's memory and work before it runs"},
    {"report", tessera::report_command, "a run as one HTML page: curves, layout, memory"},
    {"data", tessera::data_command, "train a tokenizer, turn text into tokens"},
    {"eval", tessera::eval_command, "loss and perplexity of a model"},
    {"generate", tessera::generate_command, "continue a text with a model"},
    {"convert", tessera::convert_command, "Hugging Face in and out"},
    {"selftest", tessera::selftest_command, "every op of a device against the CPU's"},
    {"tune", tessera::tune_command, "search the fastest matrix products of a run on this GPU"},
};

void print_help(std::FILE* to) {
  std::fputs("tessera COMMAND ...\n  Pretrains transformers.\n\nCommands (each with --help):\n", to);
  for (const Command& c : kCommands) std::fprintf(to, "  %-10s%s\n", c.name.data(), c.summary.data());
}

int run(std::string_view name, int argc, char** argv) {
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    tessera::check_output_written();
    return 0;
  }
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    const int code = command.run(argc - 1, argv + 1);
    if (code == 0) tessera::check_output_written();
    return code;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  std::fprintf(stderr, "tessera: unknown command '%s'%s\n", argv[1],
               tessera::did_you_mean(name, names).c_str());
  print_help(stderr);
  return 2;
}

// Where a caller has closed one, the next file would get its number, and what is printed would go there.
void open_standard_streams() {
  int opened = -1;
  do {
    opened = open("/dev/null", O_RDWR);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  tessera::speak_of_fatal_signals();
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  const char* const name = argv[1];
  try {
    return run(name, argc, argv);
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fprintf(stderr, "tessera %s: not enough memory\n", name);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "tessera %s: %s\n", name, tessera::printable(e.what()).c_str());
  }
  return 1;
}
