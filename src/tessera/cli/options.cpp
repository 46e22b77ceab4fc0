#include "tessera/cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

// One line of the help.
struct Entry {
  std::string spelling;  // "--out FOLDER"
  std::string description;
};

struct Spelling {
  std::string name;   // "--out"
  std::string value;  // "FOLDER", or empty
};

Spelling split(const std::string& spelling) {
  const std::size_t space = spelling.find(' ');
  if (space == std::string::npos) return {spelling, ""};
  return {spelling.substr(0, space), spelling.substr(space + 1)};
}

// CLI11 converts with stringstreams and names C++ types when it refuses; this says it as configs do.
template <class Number>
CLI::Validator expects(const char* what) {
  return CLI::Validator(
      [what](std::string& text) -> std::string {
        Number value{};
        const char* end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, value);
        if (result.ec == std::errc() && result.ptr == end) return "";
        return fmt::format("found '{}', expected {}", text, what);
      },
      "");
}

// Unless the description itself says what the default is, as of one that is looked up elsewhere.
std::string with_default(const std::string& description, const std::string& value) {
  const bool said = value.empty() || description.find("(default") != std::string::npos;
  return said ? description : fmt::format("{} (default {})", description, value);
}

std::string aligned(const std::vector<Entry>& entries, std::size_t width) {
  std::string text;
  for (const Entry& entry : entries)
    text += fmt::format("  {:<{}}  {}\n", entry.spelling, width, entry.description);
  return text;
}

}  // namespace

struct Options::State {
  State(std::string command_, std::string summary_)
      : command(std::move(command_)), summary(std::move(summary_)) {
    parser.allow_extras();  // kept by the parser, so that the refusal can be ours
    parser.set_help_flag("");
    parser.add_flag("-h,--help", wants_help);
  }

  CLI::Option* add(const std::string& spelling, const char* kind, const std::string& description,
                   const std::string& value, auto* field) {
    Spelling parts = split(spelling);
    if (parts.value.empty()) parts.value = kind;
    flags.push_back({parts.name + " " + parts.value, with_default(description, value)});
    names.push_back(parts.name);
    return parser.add_option(parts.name, *field);
  }

  // The first argument that nothing took, a mistyped flag before anything else; empty when there is none.
  std::string refusal_of_extras() const {
    const std::vector<std::string> extras = parser.remaining();
    for (const std::string& extra : extras) {
      if (extra.size() < 2 || extra.front() != '-') continue;
      const std::string name = extra.substr(0, extra.find('='));
      return fmt::format("unknown option '{}'{}", name, did_you_mean(name, names));
    }
    return extras.empty() ? "" : fmt::format("unexpected argument '{}'", extras.front());
  }

  std::string refusal_of_missing() const {
    for (const auto& [option, name] : required)
      if (option->empty()) return fmt::format("{} is missing", name);
    return "";
  }

  std::string command, summary, footer, usage;
  bool wants_help = false;
  CLI::App parser;
  std::vector<Entry> arguments, flags;
  std::vector<std::string> names{"--help"};
  std::vector<std::pair<CLI::Option*, std::string>> required;
};

Options::Options(std::string command, std::string summary)
    : state_(std::make_unique<State>(std::move(command), std::move(summary))) {}

Options::~Options() = default;

void Options::positional(const std::string& name, std::string* field, const std::string& description) {
  CLI::Option* option = state_->parser.add_option(name, *field);
  state_->required.emplace_back(option, name);
  state_->arguments.push_back({name, description});
  state_->usage += " " + name;
}

void Options::option(const std::string& spelling, std::string* field, const std::string& description) {
  state_->add(spelling, "TEXT", description, *field, field);
}

void Options::option(const std::string& spelling, std::int64_t* field, const std::string& description) {
  state_->add(spelling, "N", description, fmt::format("{}", *field), field)
      ->check(expects<std::int64_t>("an integer"));
}

void Options::option(const std::string& spelling, double* field, const std::string& description) {
  state_->add(spelling, "X", description, fmt::format("{}", *field), field)
      ->check(expects<double>("a number"));
}

void Options::option(const std::string& spelling, std::vector<std::string>* field,
                     const std::string& description) {
  // One value per flag: the words after it belong to the positionals.
  state_->add(spelling, "TEXT", description, "", field)->allow_extra_args(false);
}

void Options::flag(const std::string& name, bool* field, const std::string& description) {
  state_->parser.add_flag(name, *field);
  state_->flags.push_back({name, description});
  state_->names.push_back(name);
}

void Options::rest(const std::string& name, std::vector<std::string>* field, const std::string& description) {
  // CLI11 allows no '=' in a name, so ours is only shown.
  state_->parser.add_option("rest", *field);
  state_->arguments.push_back({name + " ...", description});
  state_->usage += fmt::format(" [{} ...]", name);
}

void Options::footer(std::string text) {
  state_->footer = std::move(text);
}

Parsed Options::parse(int argc, const char* const* argv) {
  const auto refuse = [&](const std::string& why) {
    return Parsed{
        false, 2,
        fmt::format("{}: {} ({} --help lists what there is)\n", state_->command, why, state_->command)};
  };
  std::string refusal;
  try {
    state_->parser.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    refusal = error.what();
  }
  if (state_->wants_help) return {false, 0, help()};
  // A mistyped flag first: what else is wrong usually follows from it.
  for (const std::string& why : {state_->refusal_of_extras(), refusal, state_->refusal_of_missing()})
    if (!why.empty()) return refuse(why);
  return {};
}

std::string Options::help() const {
  std::vector<Entry> flags = state_->flags;
  flags.push_back({"--help", "print this"});
  std::size_t width = 0;
  for (const auto& entries : {state_->arguments, flags})
    for (const Entry& entry : entries) width = std::max(width, entry.spelling.size());
  std::string text =
      fmt::format("{}\n\nUsage: {}{} [options]\n\n", state_->summary, state_->command, state_->usage);
  if (!state_->arguments.empty()) text += aligned(state_->arguments, width) + "\n";
  text += "Options:\n" + aligned(flags, width);
  if (!state_->footer.empty()) text += "\n" + state_->footer + "\n";
  return text;
}

void check_output_written() {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  TS_CHECK(written, "cannot write all of the output: {}", errno_text(errno));
}

void check_override_keys(std::span<const std::string> overrides, std::span<const std::string_view> used) {
  std::string names;
  for (const std::string_view name : used) names.append(names.empty() ? "" : ", ").append(name);
  for (const std::string& assignment : overrides) {
    const std::string key = assignment.substr(0, assignment.find('='));
    const bool known = std::ranges::any_of(used, [&](std::string_view name) {
      return name.ends_with('.') ? key.starts_with(name) : key == name;
    });
    TS_CHECK(known, "{} does not count here, expected keys of {}", key, names);
  }
}

int report(const Parsed& parsed) {
  std::fputs(parsed.message.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  return parsed.exit_code;
}

}  // namespace tessera
