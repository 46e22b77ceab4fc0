// Options: the flags and arguments of one command, their --help text and their refusals.
//
//   Options options("tessera train", "Train a model.");
//   options.positional("CONFIG", &path, "the run's YAML file");
//   options.option("--out FOLDER", &out, "folder of the run");
//   options.flag("--resume", &resume, "go on from the newest checkpoint");
//   options.rest("key=value", &overrides, "change keys of CONFIG");
//   options.require({"--out"});
//   if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
//
// Made by each command's file in cli/. A command with subcommands looks at its first word itself and
// hands the rest on. A thin face over CLI11, which costs 8 s wherever it is included.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// What main should do: run the command, or print `message` and end with exit_code.
struct Parsed {
  bool run = true;
  int exit_code = 0;    // 0 after --help, 2 after a refusal
  std::string message;  // the help, or what was wrong with the arguments
};

class Options {
 public:
  Options(std::string command, std::string summary);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // The word after a flag's name stands for its value in the help. What a field holds when it is
  // declared is its default; an optional without a value tells whether it was given.
  void positional(const std::string& name, std::string* field, const std::string& description);
  void option(const std::string& spelling, std::string* field, const std::string& description);
  void option(const std::string& spelling, std::int64_t* field, const std::string& description);
  void option(const std::string& spelling, std::optional<std::int64_t>* field,
              const std::string& description);
  void option(const std::string& spelling, double* field, const std::string& description);
  void flag(const std::string& name, bool* field, const std::string& description);
  void rest(const std::string& name, std::vector<std::string>* field, const std::string& description);
  // Of what was declared before, the flags and the rest without which the command cannot run.
  void require(std::initializer_list<std::string_view> names);
  void footer(std::string text);  // examples, below the help

  // argv[0] is the command's own name and is not looked at.
  Parsed parse(int argc, const char* const* argv);
  std::string help() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error unless all that was printed has arrived: a full disk shows only now.
void check_output_written();

// Of a command that reads only some keys of a config: each key=value has one of these, or one below a name
// that ends in a dot. Throws Error naming the key that would be passed over.
void check_override_keys(std::span<const std::string> overrides, std::span<const std::string_view> used);

// "device, cuda., train.steps": for the help of such a command.
std::string listed_keys(std::span<const std::string_view> used);

// Prints the message (help to stdout, a refusal to stderr) and returns the exit code.
int report(const Parsed& parsed);

}  // namespace tessera
