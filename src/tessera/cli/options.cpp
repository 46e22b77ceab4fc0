#include "tessera/cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/base/printable.h"
#include "tessera/train/nearest_name.h"

namespace tessera {
namespace {

// One line of the help.
struct Entry {
  std::string spelling;  // "--out FOLDER"
  std::string description;
  std::string default_value = "";
  CLI::Option* option = nullptr;
  bool required = false;
  std::string expected = "";  // of its value: "an integer"
};

// Of the values of a flag.
struct ValueKind {
  const char* placeholder;  // in the help, where the spelling has no word for it
  const char* expected;     // nullptr: the word of the help
};
constexpr ValueKind kText{"TEXT", nullptr}, kInteger{"N", "an integer"}, kNumber{"X", "a number"};

// That stand in the help for what is named by a path.
constexpr std::string_view kFileWords[] = {"FILE", "FOLDER", "DIR", "PATH", "PREFIX", "P"};

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
CLI::Validator expects(const char* what, const char* bound) {
  return CLI::Validator(
      [what, bound](std::string& text) -> std::string {
        if (text.empty()) return fmt::format("found no value, expected {}", what);
        Number value{};
        const char* end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, value);
        if (result.ec == std::errc() && result.ptr == end) {
          text = fmt::format("{}", value);  // CLI11 converts it once more, and takes 010 for eight
          return "";
        }
        if (result.ec == std::errc::result_out_of_range && result.ptr == end)
          return fmt::format("found {}, expected {} {}", text, what, bound);
        return fmt::format("found '{}', expected {}", text, what);
      },
      "");
}

CLI::Validator expects_integer() {
  return expects<std::int64_t>(kInteger.expected, "of at most 9223372036854775807 in size");
}

// An argument that is required is one of the usage line. A default is shown unless the description itself
// says what it is, as of one that is looked up elsewhere.
std::string described(const Entry& entry) {
  if (entry.required && entry.spelling.starts_with('-')) return entry.description + " (required)";
  const bool said = entry.default_value.empty() || entry.description.find("(default") != std::string::npos;
  return said ? entry.description : fmt::format("{} (default {})", entry.description, entry.default_value);
}

// An empty text counts as none: it names no file.
bool is_missing(const Entry& entry) {
  const std::vector<std::string>& given = entry.option->results();
  return std::ranges::all_of(given, [](const std::string& text) { return text.empty(); });
}

std::string aligned(const std::vector<Entry>& entries, std::size_t width) {
  std::string text;
  for (const Entry& entry : entries)
    text += fmt::format("  {:<{}}  {}\n", entry.spelling, width, described(entry));
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

  CLI::Option* add(const std::string& spelling, const ValueKind& kind, const std::string& description,
                   const std::string& value, auto* field) {
    Spelling parts = split(spelling);
    if (parts.value.empty()) parts.value = kind.placeholder;
    CLI::Option* option = parser.add_option(parts.name, *field);
    flags.push_back({parts.name + " " + parts.value, description, value, option});
    flags.back().expected = kind.expected != nullptr ? kind.expected : parts.value;
    names.push_back(parts.name);
    return option;
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

  // In CLI11's order, the last word first. "--out=" is a flag and an empty value: CLI11 would take the next
  // word for it.
  std::vector<std::string> words_of(int argc, const char* const* argv) const {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const bool is_empty = std::ranges::any_of(flags, [&](const Entry& entry) {
        return !entry.expected.empty() && word == split(entry.spelling).name + "=";
      });
      words.push_back(is_empty ? word.substr(0, word.size() - 1) : word);
      if (is_empty) words.emplace_back();
    }
    std::ranges::reverse(words);
    return words;
  }

  // Of a flag without a value or with several, which CLI11 says in words of its own.
  std::string refusal_of_count(const std::string& cli11) const {
    for (const Entry& entry : flags) {
      const std::string name = split(entry.spelling).name;
      if (!cli11.starts_with(name + ": ")) continue;
      if (cli11.ends_with(" missing"))
        return fmt::format("{}: found no value, expected {}", name, entry.expected);
      return fmt::format("{}: found {} values, expected one", name, entry.option->results().size());
    }
    return cli11;
  }

  // All that are, so that nobody finds them one by one.
  std::string refusal_of_missing() const {
    std::vector<std::string> missing;
    for (const std::vector<Entry>& entries : {arguments, flags})
      for (const Entry& entry : entries)
        if (entry.required && is_missing(entry)) missing.push_back(split(entry.spelling).name);
    if (missing.empty()) return "";
    std::string text = missing.front();
    for (std::size_t i = 1; i < missing.size(); ++i)
      text += (i + 1 == missing.size() ? " and " : ", ") + missing[i];
    return text + (missing.size() == 1 ? " is missing" : " are missing");
  }

  // Of an empty text where a file or folder is to be named: a variable of a script that is not set.
  std::string refusal_of_empty() const {
    for (const Entry& entry : flags) {
      const Spelling parts = split(entry.spelling);
      const bool names_a_file = std::ranges::find(kFileWords, parts.value) != std::end(kFileWords);
      const std::vector<std::string>& given = entry.option->results();
      if (names_a_file && std::ranges::any_of(given, [](const std::string& text) { return text.empty(); }))
        return fmt::format("{}: found no value, expected {}", parts.name, entry.expected);
    }
    return "";
  }

  std::string command, summary, footer;
  bool wants_help = false;
  CLI::App parser;
  std::vector<Entry> arguments, flags;
  std::vector<std::string> names{"--help"};
};

Options::Options(std::string command, std::string summary)
    : state_(std::make_unique<State>(std::move(command), std::move(summary))) {}

Options::~Options() = default;

void Options::positional(const std::string& name, std::string* field, const std::string& description) {
  state_->arguments.push_back({name, description, "", state_->parser.add_option(name, *field), true});
}

void Options::option(const std::string& spelling, std::string* field, const std::string& description) {
  state_->add(spelling, kText, description, *field, field);
}

void Options::option(const std::string& spelling, std::int64_t* field, const std::string& description) {
  state_->add(spelling, kInteger, description, fmt::format("{}", *field), field)
      ->transform(expects_integer());
}

void Options::option(const std::string& spelling, std::optional<std::int64_t>* field,
                     const std::string& description) {
  state_->add(spelling, kInteger, description, "", field)->transform(expects_integer());
}

void Options::option(const std::string& spelling, double* field, const std::string& description) {
  state_->add(spelling, kNumber, description, fmt::format("{}", *field), field)
      ->transform(expects<double>(kNumber.expected, "that a double holds"));
}

void Options::flag(const std::string& name, bool* field, const std::string& description) {
  state_->flags.push_back({name, description, "", state_->parser.add_flag(name, *field)});
  state_->names.push_back(name);
}

void Options::rest(const std::string& name, std::vector<std::string>* field, const std::string& description) {
  // CLI11 allows no '=' in a name, so ours is only shown.
  state_->arguments.push_back({name + " ...", description, "", state_->parser.add_option("rest", *field)});
}

void Options::require(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    bool found = false;
    for (std::vector<Entry>* entries : {&state_->arguments, &state_->flags}) {
      for (Entry& entry : *entries) {
        if (split(entry.spelling).name == name) found = entry.required = true;
      }
    }
    TS_ASSERT(found);
  }
}

void Options::footer(std::string text) {
  state_->footer = std::move(text);
}

Parsed Options::parse(int argc, const char* const* argv) {
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    return Parsed{false, 2, fmt::format("{}: {}{}\n", state_->command, printable(why), hint)};
  };
  std::string refusal;
  try {
    state_->parser.parse(state_->words_of(argc, argv));
  } catch (const CLI::ArgumentMismatch& error) {
    refusal = state_->refusal_of_count(error.what());
  } catch (const CLI::ParseError& error) {
    refusal = error.what();
  }
  if (state_->wants_help) return {false, 0, help()};
  // A mistyped flag first: what else is wrong usually follows from it.
  for (const std::string& why : {state_->refusal_of_extras(), refusal})
    if (!why.empty()) return refuse(why, fmt::format(" ({} --help lists what there is)", state_->command));
  const std::string missing = state_->refusal_of_missing();
  if (!missing.empty()) return refuse(missing, "; see --help");
  const std::string empty = state_->refusal_of_empty();
  return empty.empty() ? Parsed{} : refuse(empty, "; see --help");
}

std::string Options::help() const {
  std::vector<Entry> flags = state_->flags;
  flags.push_back({"--help", "print this"});
  std::string usage;
  for (const Entry& entry : state_->arguments)
    usage += entry.required ? " " + entry.spelling : fmt::format(" [{}]", entry.spelling);
  std::size_t width = 0;
  for (const auto& entries : {state_->arguments, flags})
    for (const Entry& entry : entries) width = std::max(width, entry.spelling.size());
  std::string text = fmt::format("{}\n\nUsage: {}{} [options]\n\n", state_->summary, state_->command, usage);
  if (!state_->arguments.empty()) text += aligned(state_->arguments, width) + "\n";
  text += "Options:\n" + aligned(flags, width);
  if (!state_->footer.empty()) text += "\n" + state_->footer + "\n";
  return text;
}

void check_output_written() {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  TS_CHECK(written, "cannot write all of the output: {}", errno_text(errno));
}

std::string listed_keys(std::span<const std::string_view> used) {
  std::string names;
  for (const std::string_view name : used) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

void check_override_keys(std::span<const std::string> overrides, std::span<const std::string_view> used) {
  for (const std::string& assignment : overrides) {
    const std::string key = assignment.substr(0, assignment.find('='));
    TS_CHECK(key != assignment, "found '{}', expected key=value of {}", assignment, listed_keys(used));
    const bool known = std::ranges::any_of(used, [&](std::string_view name) {
      return name.ends_with('.') ? key.starts_with(name) : key == name;
    });
    TS_CHECK(known, "{} does not count here, expected keys of {}", key, listed_keys(used));
  }
}

int report(const Parsed& parsed) {
  std::fputs(parsed.message.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  return parsed.exit_code;
}

}  // namespace tessera
