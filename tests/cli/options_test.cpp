#include "tessera/cli/options.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera {
namespace {

struct Values {
  std::string config;
  std::string out = "runs/default";
  std::int64_t steps = 5, batch = 0;
  std::optional<std::int64_t> ranks;
  double temperature = 0.5;
  bool resume = false;
  std::vector<std::string> overrides;
};

Parsed parse(Values& values, std::vector<const char*> arguments) {
  Options options("tessera train", "Train a model.");
  options.positional("CONFIG", &values.config, "the run's YAML file");
  options.option("--out FOLDER", &values.out, "folder of the run");
  options.option("--steps", &values.steps, "steps to take");
  options.option("--batch N", &values.batch, "sequences (default: the run's)");
  options.option("--ranks N", &values.ranks, "all of them unless given");
  options.option("--temperature", &values.temperature, "of the sample");
  options.flag("--resume", &values.resume, "go on from the newest checkpoint");
  options.rest("key=value", &values.overrides, "change keys of CONFIG");
  options.footer("Example: tessera train a.yaml train.steps=3");
  arguments.insert(arguments.begin(), "train");
  return options.parse(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal(std::vector<const char*> arguments) {
  Values values;
  const Parsed parsed = parse(values, std::move(arguments));
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 2);
  return parsed.message;
}

TEST(Options, FillsFieldsInAnyOrder) {
  Values values;
  const Parsed parsed = parse(values, {"--resume", "run.yaml", "train.steps=-3", "--steps", "-7", "--ranks",
                                       "0", "--temperature=1e-1", "lr=2", "--out", "x y"});
  EXPECT_TRUE(parsed.run) << parsed.message;
  EXPECT_EQ(values.config, "run.yaml");
  EXPECT_EQ(values.overrides, (std::vector<std::string>{"train.steps=-3", "lr=2"}));
  EXPECT_EQ(values.steps, -7);
  EXPECT_EQ(values.ranks, 0);
  EXPECT_EQ(values.temperature, 0.1);
  EXPECT_EQ(values.out, "x y");
  EXPECT_TRUE(values.resume);
}

TEST(Options, NumbersWithLeadingZerosAreDecimal) {
  Values values;
  EXPECT_TRUE(parse(values, {"run.yaml", "--steps", "010", "--ranks", "09"}).run);
  EXPECT_EQ(values.steps, 10);
  EXPECT_EQ(values.ranks, 9);
}

TEST(Options, AbsentOnesKeepTheirDefaults) {
  Values values;
  EXPECT_TRUE(parse(values, {"run.yaml"}).run);
  EXPECT_EQ(values.out, "runs/default");
  EXPECT_EQ(values.steps, 5);
  EXPECT_EQ(values.ranks, std::nullopt);
  EXPECT_FALSE(values.resume);
  EXPECT_TRUE(values.overrides.empty());
}

TEST(Options, HelpIsPrintedWhateverElseIsGiven) {
  for (const char* flag : {"--help", "-h"}) {
    Values values;
    const Parsed parsed = parse(values, {flag});
    EXPECT_FALSE(parsed.run);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_EQ(parsed.message,
              "Train a model.\n\n"
              "Usage: tessera train CONFIG [key=value ...] [options]\n\n"
              "  CONFIG           the run's YAML file\n"
              "  key=value ...    change keys of CONFIG\n\n"
              "Options:\n"
              "  --out FOLDER     folder of the run (default runs/default)\n"
              "  --steps N        steps to take (default 5)\n"
              "  --batch N        sequences (default: the run's)\n"
              "  --ranks N        all of them unless given\n"
              "  --temperature X  of the sample (default 0.5)\n"
              "  --resume         go on from the newest checkpoint\n"
              "  --help           print this\n\n"
              "Example: tessera train a.yaml train.steps=3\n");
  }
}

TEST(Options, UnknownFlagIsRefusedWithTheNearest) {
  const std::string tail = " (tessera train --help lists what there is)\n";
  EXPECT_EQ(refusal({"run.yaml", "--reusme"}),
            "tessera train: unknown option '--reusme'; did you mean '--resume'?" + tail);
  EXPECT_EQ(refusal({"--reusme"}),
            "tessera train: unknown option '--reusme'; did you mean '--resume'?" + tail);
  EXPECT_EQ(refusal({"run.yaml", "--ouput=x"}),
            "tessera train: unknown option '--ouput'; did you mean '--out'?" + tail);
  EXPECT_EQ(refusal({"run.yaml", "--zzzzzzzz"}), "tessera train: unknown option '--zzzzzzzz'" + tail);
}

TEST(Options, MissingAndWrongValuesAreRefused) {
  EXPECT_TRUE(refusal({}).starts_with("tessera train: CONFIG is missing"));
  EXPECT_TRUE(refusal({"a", "--steps", "ten"})
                  .starts_with("tessera train: --steps: found 'ten', expected an integer"))
      << refusal({"a", "--steps", "ten"});
  EXPECT_TRUE(refusal({"a", "--ranks", "ten"})
                  .starts_with("tessera train: --ranks: found 'ten', expected an integer"));
  EXPECT_TRUE(
      refusal({"a", "--steps", "99999999999999999999"})
          .starts_with("tessera train: --steps: found 99999999999999999999, expected an integer of at "
                       "most 9223372036854775807 in size"));
  EXPECT_TRUE(
      refusal({"a", "--temperature", "1e400"})
          .starts_with("tessera train: --temperature: found 1e400, expected a number that a double holds"));
  EXPECT_TRUE(refusal({"a", "--temperature", "hot"})
                  .starts_with("tessera train: --temperature: found 'hot', expected a number"));
}

TEST(Options, FlagsWithoutAValueOrWithSeveral) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> refused = {
      {{"a", "--out"}, "--out: found no value, expected FOLDER ("},
      {{"a", "--ranks"}, "--ranks: found no value, expected an integer ("},
      {{"a", "--ranks="}, "--ranks: found no value, expected an integer ("},
      {{"--steps=", "a"}, "--steps: found no value, expected an integer ("},
      {{"--temperature=", "a"}, "--temperature: found no value, expected a number ("},
      {{"a", "--steps", ""}, "--steps: found no value, expected an integer ("},
      {{"a", "--steps", "1", "--steps", "2"}, "--steps: found 2 values, expected one ("}};
  for (const auto& [arguments, message] : refused) {
    const std::string found = refusal(arguments);
    EXPECT_TRUE(found.starts_with("tessera train: " + message)) << found;
  }
}

// As of a script's variable that is not set: what was to be written would be left out without a word.
TEST(Options, AnEmptyTextNamesNoFile) {
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"a", "--out", ""}, {"--out=", "a"}})
    EXPECT_EQ(refusal(arguments), "tessera train: --out: found no value, expected FOLDER; see --help\n");
}

TEST(Options, OtherTextsMayBeEmpty) {
  std::string config, prompt = "once";
  Options options("tessera generate", "Continue a text.");
  options.positional("MODEL", &config, "a run");
  options.option("--prompt TEXT", &prompt, "how it begins");
  const std::array arguments{"generate", "--prompt=", "a"};
  EXPECT_TRUE(options.parse(3, arguments.data()).run);
  EXPECT_EQ(prompt, "");
  EXPECT_EQ(config, "a");
}

TEST(Options, RequiredOnesAreNamedWhenTheyAreMissing) {
  const auto parsed = [](std::vector<const char*> arguments) {
    std::string out;
    std::int64_t seq = 0;
    std::vector<std::string> files;
    Options options("tessera cut", "Cut texts.");
    options.option("--out FOLDER", &out, "where to write");
    options.option("--seq N", &seq, "tokens of a sample");
    options.rest("FILE", &files, "the texts");
    options.require({"--out", "--seq", "FILE"});
    arguments.insert(arguments.begin(), "cut");
    return options.parse(static_cast<int>(arguments.size()), arguments.data());
  };
  EXPECT_TRUE(parsed({"--out", "a", "--seq", "0", "b", "c"}).run);
  EXPECT_EQ(parsed({"--seq", "3", "b"}).message, "tessera cut: --out is missing; see --help\n");
  EXPECT_EQ(parsed({"--out", "", "--seq", "3", "b"}).message, "tessera cut: --out is missing; see --help\n");
  EXPECT_EQ(parsed({"b"}).message, "tessera cut: --out and --seq are missing; see --help\n");
  EXPECT_EQ(parsed({}).message, "tessera cut: FILE, --out and --seq are missing; see --help\n");
  EXPECT_EQ(parsed({}).exit_code, 2);
  EXPECT_TRUE(parsed({"--ouy", "a"}).message.starts_with("tessera cut: unknown option '--ouy'"));
  EXPECT_EQ(parsed({"--help"}).message,
            "Cut texts.\n\n"
            "Usage: tessera cut FILE ... [options]\n\n"
            "  FILE ...      the texts\n\n"
            "Options:\n"
            "  --out FOLDER  where to write (required)\n"
            "  --seq N       tokens of a sample (required)\n"
            "  --help        print this\n");
}

TEST(Options, UnexpectedArgumentIsRefused) {
  Options options("tessera plan", "Plan.");
  std::string config;
  options.positional("CONFIG", &config, "a file");
  const char* arguments[] = {"plan", "a", "b"};
  EXPECT_TRUE(options.parse(3, arguments).message.starts_with("tessera plan: unexpected argument 'b'"));
}

}  // namespace
}  // namespace tessera
