#include "tessera/train/config_schema.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/train/config_yaml.h"

namespace tessera {
namespace {

enum class Shape3 { line, curve, null };

struct Sample {
  std::int64_t steps = 10;
  double rate = 0.5;
  bool fast = false;
  std::string out = "here";
  Shape3 shape = Shape3::line;
  std::vector<std::int64_t> sizes = {1, 2};
  std::vector<double> shares;
  std::vector<std::string> names;
  std::int64_t deep = 0;
  bool operator==(const Sample&) const = default;
};

ConfigSchema schema_of(Sample& sample) {
  ConfigSchema s;
  s.integer("train.steps", &sample.steps, "optimizer steps", {.min = 1});
  s.number("train.rate", &sample.rate, "learning rate", {.min = 0, .max = 1, .above_min = true});
  s.boolean("train.lr_warmup", &sample.fast, "warm up first");
  s.text("train.out", &sample.out, "folder");
  s.list("lists.sizes", &sample.sizes, "sizes", {.min = 0});
  s.list("lists.shares", &sample.shares, "shares");
  s.list("lists.names", &sample.names, "names");
  s.integer("one.two.three", &sample.deep, "a key three deep", {.max = 7});
  s.choice("shape", &sample.shape, "kind of path", {"line", "curve", "null"});
  return s;
}

Sample loaded(const std::string& yaml) {
  Sample sample;
  load_yaml(schema_of(sample), yaml, "run.yaml");
  return sample;
}

// The message the YAML is refused with.
std::string refusal(const std::string& yaml) {
  try {
    loaded(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string override_refusal(const std::string& assignment) {
  Sample sample;
  try {
    apply_override(schema_of(sample), assignment);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ConfigSchema, FillsEveryKindOfField) {
  const Sample sample = loaded(R"(
train:
  steps: 30
  rate: 3e-4
  lr_warmup: true
  out: "runs/a b"
lists: {sizes: [3, 4, 5], shares: [.5, 1], names: [a, "b c"]}
one.two.three: -2
shape: curve
)");
  const Sample expected{30, 3e-4, true, "runs/a b", Shape3::curve, {3, 4, 5}, {0.5, 1}, {"a", "b c"}, -2};
  EXPECT_EQ(sample, expected);
}

TEST(ConfigSchema, AbsentKeysAndEmptySectionsKeepTheDefaults) {
  EXPECT_EQ(loaded("train:\n  # steps: 3\nshape: line\n"), Sample{});
}

TEST(ConfigSchema, UnknownKeyIsRefusedWithPlaceAndNearestName) {
  EXPECT_EQ(refusal("train:\n  steps: 3\n  lr_warmpu: true\n"),
            "unknown key 'train.lr_warmpu' (run.yaml:3); did you mean 'train.lr_warmup'?");
  EXPECT_EQ(refusal("trian:\n  steps: 3\n"), "unknown key 'trian' (run.yaml:1); did you mean 'train'?");
  EXPECT_EQ(refusal("steps: 3\n"), "unknown key 'steps' (run.yaml:1); did you mean 'train.steps'?");
  EXPECT_EQ(refusal("lists:\n  steps: 3\n"),
            "unknown key 'lists.steps' (run.yaml:2); did you mean 'train.steps'?");
  EXPECT_EQ(refusal("train:\n  zzzzzz: 3\n"),
            "unknown key 'train.zzzzzz' (run.yaml:2); the keys of 'train' are steps, rate, lr_warmup, out");
  EXPECT_EQ(refusal("zzzzzz: 3\n"),
            "unknown key 'zzzzzz' (run.yaml:1); the keys at the top are train, lists, one, shape");
}

TEST(ConfigSchema, WrongTypeIsRefused) {
  EXPECT_EQ(refusal("train: {steps: ten}"), "train.steps: found 'ten', expected an integer (run.yaml:1)");
  EXPECT_EQ(refusal("train: {steps: 1.5}"), "train.steps: found '1.5', expected an integer (run.yaml:1)");
  EXPECT_EQ(refusal("train: {steps: 99999999999999999999}"),
            "train.steps: found 99999999999999999999, expected at most 9223372036854775807 (run.yaml:1)");
  EXPECT_EQ(refusal("train: {rate: fast}"), "train.rate: found 'fast', expected a number (run.yaml:1)");
  EXPECT_EQ(refusal("train: {rate: nan}"), "train.rate: found 'nan', expected a number (run.yaml:1)");
  EXPECT_EQ(refusal("train: {lr_warmup: yes}"),
            "train.lr_warmup: found 'yes', expected true or false (run.yaml:1)");
  EXPECT_EQ(refusal("train: {steps: [1, 2]}"),
            "train.steps: found a list, expected an integer, at least 1 (run.yaml:1)");
  EXPECT_EQ(refusal("train:\n  steps:\n  out: a\n"),
            "train.steps: found nothing, expected an integer, at least 1 (run.yaml:2)");
  EXPECT_EQ(refusal("train: {out: null}"), "train.out: found null, expected text (run.yaml:1)");
  EXPECT_EQ(refusal("train: {out: {a: 1}}"), "train.out: found a map of keys, expected text (run.yaml:1)");
  EXPECT_EQ(refusal("lists: {sizes: 3}"),
            "lists.sizes: found '3', expected a list of integers, at least 0 (run.yaml:1)");
  EXPECT_EQ(refusal("lists: {sizes: [3, x]}"),
            "lists.sizes: item 1: found 'x', expected an integer (run.yaml:1)");
  EXPECT_EQ(refusal("lists: {sizes: [3, [4]]}"),
            "lists.sizes: found a list in the list, expected plain values (run.yaml:1)");
}

TEST(ConfigSchema, ImpossibleValueIsRefused) {
  EXPECT_EQ(refusal("train: {steps: -3}"), "train.steps: found -3, expected at least 1 (run.yaml:1)");
  EXPECT_EQ(refusal("train: {rate: 0}"), "train.rate: found 0, expected above 0 and at most 1 (run.yaml:1)");
  EXPECT_EQ(refusal("train: {rate: 1.5}"),
            "train.rate: found 1.5, expected above 0 and at most 1 (run.yaml:1)");
  EXPECT_EQ(refusal("lists: {sizes: [3, -1]}"),
            "lists.sizes: item 1: found -1, expected at least 0 (run.yaml:1)");
  EXPECT_EQ(refusal("one: {two: {three: 8}}"), "one.two.three: found 8, expected at most 7 (run.yaml:1)");
  EXPECT_EQ(refusal("shape: curv"),
            "shape: found 'curv', expected line | curve | null; did you mean 'curve'? (run.yaml:1)");
}

TEST(ConfigSchema, TheWordNullIsAnEnumNameButNothingIsNot) {
  EXPECT_EQ(loaded("train:\n  out: ä\nshape: null\n").shape, Shape3::null);
  EXPECT_EQ(loaded("\xef\xbb\xbfshape: null\n").shape, Shape3::null);
  EXPECT_EQ(refusal("shape:\ntrain: {steps: 1}\n"),
            "shape: found nothing, expected line | curve | null (run.yaml:1)");
}

TEST(ConfigSchema, DuplicateKeyIsRefused) {
  EXPECT_EQ(refusal("train:\n  steps: 3\n  steps: 4\n"), "duplicate key 'train.steps' (run.yaml:3)");
  EXPECT_EQ(refusal("train: {steps: 3}\ntrain: {out: a}\n"), "duplicate key 'train' (run.yaml:2)");
  EXPECT_EQ(refusal("train: {steps: 3}\ntrain.steps: 4\n"), "duplicate key 'train.steps' (run.yaml:2)");
}

TEST(ConfigSchema, AnythingButAMapOfKeysIsRefused) {
  EXPECT_EQ(refusal("train:\n  - steps: 3\n"),
            "train: found a list, expected a map of keys: steps, rate, lr_warmup, out (run.yaml:1)");
  EXPECT_EQ(refusal("train: 3\n"),
            "train: found '3', expected a map of keys: steps, rate, lr_warmup, out (run.yaml:1)");
  EXPECT_EQ(refusal("\n- 1\n- 2\n"),
            "run.yaml:2: found a list, expected a map of keys: train, lists, one, shape");
  EXPECT_EQ(refusal("just words\n"),
            "run.yaml:1: found 'just words', expected a map of keys: train, lists, one, shape");
  EXPECT_EQ(refusal("? [a, b]\n: 3\n"), "run.yaml:1: found a list as a key, expected a name");
  EXPECT_EQ(refusal(""), "run.yaml: found no keys, expected a YAML config");
  EXPECT_EQ(refusal("# a comment only\n"), "run.yaml: found no keys, expected a YAML config");
  const std::string second = " found a second document or wrong indentation, expected one map of keys";
  EXPECT_EQ(refusal("shape: line\n---\nshape: line\n"), "run.yaml:2:" + second);
  EXPECT_EQ(refusal("  shape: line\n,train: {steps: 3}\n"), "run.yaml:2:" + second);
  EXPECT_EQ(refusal("  shape: line\ntrain: {steps: 3}\n"), "run.yaml:2:" + second);
}

TEST(ConfigSchema, TextThatIsNotYamlIsRefusedWithItsLine) {
  EXPECT_TRUE(refusal("shape: line\ntrain:\n\tsteps: 3\n").starts_with("run.yaml:3: not YAML: "));
  EXPECT_TRUE(refusal("train: {steps: 3\nshape: line\n").starts_with("run.yaml:2: not YAML: "));
  EXPECT_TRUE(refusal(std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)).starts_with("run.yaml:"));
}

TEST(ConfigSchema, OverridesReplaceValuesInOrder) {
  Sample sample;
  const ConfigSchema schema = schema_of(sample);
  for (const char* assignment : {"train.steps=3", "train.steps=4", "train.out=a=b: c", "lists.sizes=7,8",
                                 "lists.names=", "shape=null", "train.rate=1e-3"})
    apply_override(schema, assignment);
  EXPECT_EQ(sample.steps, 4);
  EXPECT_EQ(sample.out, "a=b: c");
  EXPECT_EQ(sample.sizes, (std::vector<std::int64_t>{7, 8}));
  EXPECT_TRUE(sample.names.empty());
  EXPECT_EQ(sample.shape, Shape3::null);
  EXPECT_EQ(sample.rate, 1e-3);
}

TEST(ConfigSchema, ListsOfOverridesMayHaveBrackets) {
  Sample sample;
  const ConfigSchema schema = schema_of(sample);
  for (const char* assignment :
       {"lists.sizes=[7, 8]", "lists.names=['a, b',c]", "lists.shares=1,2", "lists.shares=[]"})
    apply_override(schema, assignment);
  EXPECT_EQ(sample.sizes, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(sample.names, (std::vector<std::string>{"a, b", "c"}));
  EXPECT_TRUE(sample.shares.empty());
  EXPECT_EQ(override_refusal("lists.sizes=[7, x]"),
            "lists.sizes: item 1: found 'x', expected an integer (command line:1)");
  for (const char* no_list : {"lists.sizes=[7],[8]", "lists.sizes=[7]\nsmall: 2\nlists.shares: []"}) {
    EXPECT_TRUE(override_refusal(no_list).starts_with("lists.sizes:")) << override_refusal(no_list);
  }
}

TEST(ConfigSchema, BadOverridesAreRefused) {
  EXPECT_EQ(override_refusal("train.stesp=3"),
            "unknown key 'train.stesp' (command line); did you mean 'train.steps'?");
  EXPECT_EQ(override_refusal("train.steps=ten"),
            "train.steps: found 'ten', expected an integer (command line)");
  EXPECT_EQ(override_refusal("train.steps="), "train.steps: found '', expected an integer (command line)");
  EXPECT_EQ(override_refusal("train.steps"), "found 'train.steps' on the command line, expected key=value");
  EXPECT_EQ(override_refusal("=3"), "found '=3' on the command line, expected key=value");
  EXPECT_EQ(override_refusal("one=3"), "one: found '3', expected one of its keys: one.two (command line)");
}

TEST(ConfigSchema, WritesYamlThatLoadsToTheSameStruct) {
  Sample sample{7, 1.0 / 3, true, "", Shape3::null, {}, {1e-30, 0.1}, {" ", "null", " a: #b'\"", "true"}, 5};
  const std::string yaml = to_yaml(schema_of(sample));
  EXPECT_EQ(loaded(yaml), sample) << yaml;
  sample.out = "~";
  sample.names = {"- x", "[y", "ä", "a  b", "1_0"};
  EXPECT_EQ(loaded(to_yaml(schema_of(sample))), sample);
}

TEST(ConfigSchema, RefusesControlCharacters) {
  EXPECT_EQ(refusal("lists: {names: [a, \"b\\nc\"]}\n"),
            "lists.names: item 1: found the control character 0x0a behind 'b', expected text without any "
            "(run.yaml:1)");
  EXPECT_EQ(
      override_refusal("train.out=\tx"),
      "train.out: found the control character 0x09 behind '', expected text without any (command line)");
}

// It would match every name that such a list is compared with.
TEST(ConfigSchema, RefusesEmptyTextInAList) {
  EXPECT_EQ(refusal("lists: {names: [a, \"\"]}\n"),
            "lists.names: item 1: found nothing, expected text (run.yaml:1)");
}

TEST(ConfigSchema, DescribesEveryKeyWithItsDefault) {
  Sample sample;
  const ConfigSchema schema = schema_of(sample);
  sample.steps = 99;  // after the declaration: not the default
  const std::string text = describe(schema);
  EXPECT_NE(text.find("  train.steps      10      optimizer steps (an integer, at least 1)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  lists.sizes      [1, 2]  sizes (a list of integers, at least 0)\n"),
            std::string::npos);
  EXPECT_NE(text.find("  shape            line    kind of path (line | curve | null)\n"), std::string::npos);
  EXPECT_FALSE(is_default(*schema.find("train.steps")));
  EXPECT_TRUE(is_default(*schema.find("train.out")));
}

}  // namespace
}  // namespace tessera
