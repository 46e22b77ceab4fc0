#include "tessera/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A run whose tensors say at which step they were saved.
struct SavedRun {
  TemporaryFolder folder;
  std::vector<float> weights = std::vector<float>(1000);
  std::vector<double> moments = std::vector<double>(500);

  fs::path save(std::int64_t step, int keep_last = 0) {
    std::ranges::fill(weights, static_cast<float>(step));
    std::ranges::fill(moments, static_cast<double>(step) / 3);
    const std::vector<CheckpointFile> files = {
        {"weights.safetensors", {{"w", {weights.data(), DType::f32, {10, 100}}}}},
        {"optimizer.safetensors", {{"w.m", {moments.data(), DType::f64, {500}}}}},
    };
    return save_checkpoint(folder.path(), {step, step * 64, {{"config", "model: \"llama\"\n"}}}, files,
                           keep_last);
  }
  std::vector<std::string> names() const { return names_in(folder.path()); }
};

void expect_intact(const fs::path& folder, std::int64_t step) {
  LoadedCheckpoint loaded(folder);
  EXPECT_EQ(loaded.info().step, step);
  std::vector<float> weights(1000);
  std::vector<double> moments(500);
  loaded.file("weights.safetensors").read("w", {weights.data(), DType::f32, {10, 100}});
  loaded.file("optimizer.safetensors").read("w.m", {moments.data(), DType::f64, {500}});
  EXPECT_EQ(weights, std::vector<float>(1000, static_cast<float>(step)));
  EXPECT_EQ(moments, std::vector<double>(500, static_cast<double>(step) / 3));
}

void flip_byte(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(at);
  const char flipped = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(flipped);
}

std::string hash_of(const fs::path& file) {
  return digest_of(MappedFile(file).bytes()).xxh3_128;
}

TEST(Checkpoint, GivesBackWhatWasSaved) {
  SavedRun run;
  const fs::path folder = run.save(100);
  EXPECT_EQ(folder, run.folder.path() / "step-00000100");
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{"manifest.json", "optimizer.safetensors", "weights.safetensors"}));
  expect_intact(folder, 100);
  LoadedCheckpoint loaded(folder);
  EXPECT_EQ(loaded.info().consumed_samples, 6400);
  EXPECT_EQ(loaded.info().properties.at("config"), "model: \"llama\"\n");
  EXPECT_TRUE(loaded.contains("weights.safetensors"));
  EXPECT_FALSE(loaded.contains("manifest.json"));
  EXPECT_EQ(loaded.file("weights.safetensors").metadata().at("format"), "pt");
  EXPECT_EQ(&loaded.file("weights.safetensors"), &loaded.file("weights.safetensors"));
  expect_error([&] { loaded.file("scaler.safetensors"); }, {folder.string(), "\"scaler.safetensors\""});
}

TEST(Checkpoint, MakesTheRunFolderWhenNeeded) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path() / "runs/first", {7, 0, {}}, {});
  EXPECT_EQ(names_in(folder.path() / "runs/first"), std::vector<std::string>{"step-00000007"});
}

TEST(Checkpoint, LatestIsTheHighestCompleteStep) {
  SavedRun run;
  EXPECT_FALSE(find_latest_checkpoint(run.folder.path()));
  EXPECT_FALSE(find_latest_checkpoint(run.folder.path() / "absent"));
  run.save(900);
  run.save(100000000);  // nine digits: by number, not by name
  run.save(1000);
  fs::create_directory(run.folder.path() / "step-200000000");  // no manifest
  fs::copy(run.folder.path() / "step-00000900", run.folder.path() / "step-300000000.partial");
  fs::copy(run.folder.path() / "step-00000900", run.folder.path() / "step-400000000-copy");
  fs::copy(run.folder.path() / "step-00000900", run.folder.path() / "step-5");
  EXPECT_EQ(find_latest_checkpoint(run.folder.path()), run.folder.path() / "step-100000000");
  EXPECT_EQ(list_checkpoints(run.folder.path()).size(), 3u);
  const auto broken = list_broken_checkpoints(run.folder.path());
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken.at(200000000), run.folder.path() / "step-200000000");
}

TEST(Checkpoint, KeepLastDeletesOlderStepsOnly) {
  SavedRun run;
  for (const int step : {10, 20, 30, 90}) run.save(step);
  EXPECT_EQ(run.names().size(), 4u);
  fs::create_directory(run.folder.path() / "step-00000005");  // incomplete: not ours to delete
  run.folder.write("metrics.jsonl", "{}");
  run.save(40, 2);  // of a run resumed from step 30: what lies ahead stays
  EXPECT_EQ(run.names(), (std::vector<std::string>{"metrics.jsonl", "step-00000005", "step-00000030",
                                                   "step-00000040", "step-00000090"}));
  run.save(100, 1);
  EXPECT_EQ(run.names(), (std::vector<std::string>{"metrics.jsonl", "step-00000005", "step-00000100"}));
  expect_intact(run.folder.path() / "step-00000100", 100);
}

// As after a kill between a checkpoint's name and the deletion of older ones.
TEST(Checkpoint, WhatAKilledSaveWasToDeleteCanBeDeletedLater) {
  SavedRun run;
  for (const int step : {10, 20, 30}) run.save(step);
  EXPECT_TRUE(checkpoints_are_tidy(run.folder.path(), 30, 0));
  EXPECT_TRUE(checkpoints_are_tidy(run.folder.path(), 30, 3));
  EXPECT_FALSE(checkpoints_are_tidy(run.folder.path(), 30, 2));
  for (const char* name : {"step-00000005.partial", "step-00000030.replaced", "step-00000007.replaced"}) {
    fs::copy(run.folder.path() / "step-00000010", run.folder.path() / name);
    const bool to_delete = std::string(name) != "step-00000007.replaced";  // nothing has replaced that one
    EXPECT_EQ(checkpoints_are_tidy(run.folder.path(), 30, 3), !to_delete) << name;
    tidy_checkpoints(run.folder.path(), 30, 3);
    EXPECT_EQ(fs::exists(run.folder.path() / name), !to_delete) << name;
  }
  tidy_checkpoints(run.folder.path(), 30, 1);
  EXPECT_EQ(run.names(), (std::vector<std::string>{"step-00000007.replaced", "step-00000030"}));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  SavedRun run;
  const fs::path folder = run.save(10);
  run.folder.write("step-00000010/stale", "x");
  run.save(10);
  EXPECT_EQ(run.names(), std::vector<std::string>{"step-00000010"});
  EXPECT_FALSE(fs::exists(folder / "stale"));
  expect_intact(folder, 10);
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  SavedRun run;
  const fs::path folder = run.save(1);
  const fs::path weights = folder / "weights.safetensors";
  const std::string hash = hash_of(weights);
  const auto load = [&] { LoadedCheckpoint(folder).file("weights.safetensors"); };

  for (const std::streamoff at : {std::streamoff{3}, std::streamoff{20}, std::streamoff{2000}}) {
    flip_byte(weights, at);
    expect_error(load, {weights.string(), "damaged", "expected", hash});
    expect_error(load, {hash_of(weights)});
    flip_byte(weights, at);
  }
  load();
  const auto num_bytes = fs::file_size(weights);
  fs::resize_file(weights, num_bytes - 1);
  expect_error(load,
               {weights.string(), fmt::format("found {} bytes, expected {}", num_bytes - 1, num_bytes)});
  fs::remove(weights);
  expect_error(load, {weights.string(), "listed in manifest.json", "No such file"});
}

TEST(Checkpoint, RefusesBrokenManifests) {
  const TemporaryFolder folder;
  const auto load = [&] { LoadedCheckpoint loaded(folder.path()); };
  const std::string file = (folder.path() / "manifest.json").string();
  expect_error(load, {file, "No such file"});
  const auto expect_refused = [&](const std::string& text, std::vector<std::string> parts) {
    SCOPED_TRACE(text);
    folder.write("manifest.json", text);
    parts.push_back(file);
    expect_error(load, parts);
  };
  const auto manifest = [](const std::string& step, const std::string& files) {
    return R"({"format_version":1,"consumed_samples":0,"properties":{},"step":)" + step +
           ",\"files\":" + files + "}";
  };
  expect_refused("", {"not JSON"});
  expect_refused(R"({"format_version":1,)", {"not JSON"});
  expect_refused("[]", {"JSON array", "an object"});
  expect_refused("{}", {"no \"format_version\""});
  expect_refused(R"({"format_version":2})", {"found format version 2, expected 1"});
  expect_refused(R"({"format_version":1})", {"no \"step\""});
  expect_refused(manifest("-1", "{}"), {"\"step\" is -1"});
  expect_refused(manifest("\"1\"", "{}"), {"\"step\" is \"1\"", "number"});
  expect_refused(manifest("9223372036854775808", "{}"), {"\"step\" is 9223372036854775808"});
  expect_refused(manifest("1", "[]"), {"\"files\" is []", "object"});
  expect_refused(manifest("1", R"({"../w":{"bytes":1,"xxh3_128":""}})"), {"\"../w\"", "beside the manifest"});
  expect_refused(manifest("1", R"({"w":{"bytes":1}})"), {"\"w\"", "no \"xxh3_128\""});
  expect_refused(R"({"format_version":1,"step":1,"consumed_samples":0,"files":{},"properties":{"config":1}})",
                 {"\"config\" is 1", "a string"});
}

TEST(Checkpoint, RefusesFileNamesThatLeaveTheFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"../w", "", "manifest.json", ".."}) {
    const std::vector<CheckpointFile> files = {{name, {}}};
    expect_error([&] { save_checkpoint(folder.path(), {1, 0, {}}, files); }, {"step-00000001", name});
  }
  const std::vector<CheckpointFile> twice = {{"w", {}}, {"w", {}}};
  expect_error([&] { save_checkpoint(folder.path(), {1, 0, {}}, twice); }, {"step-00000001", "\"w\""});
  expect_error([&] { save_checkpoint(folder.path(), {-1, 0, {}}, {}); }, {"step -1"});
  EXPECT_TRUE(names_in(folder.path()).empty());
}

}  // namespace
}  // namespace tessera
