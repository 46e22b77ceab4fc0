#include "tessera/checkpoint/safetensors_folder.h"

#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// Tensor name to shard file name.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index) {
  Json json;
  try {
    json = parse_json(read_file(index));
  } catch (const Json::exception& error) {
    fail("{}: not JSON: {}", index.string(), error.what());
  }
  TS_CHECK(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
           "{}: expected an object with a \"weight_map\" from tensor to shard", index.string());
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, value] : json["weight_map"].items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    TS_CHECK(!shard.empty() && shard.find('/') == std::string::npos,
             "{}: tensor \"{}\" is in {}, expected the name of a file beside the index", index.string(), name,
             value.dump());
    shard_of[name] = shard;
  }
  return shard_of;
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& path) : path_(path) {
  const auto single = std::filesystem::is_directory(path) ? path / "model.safetensors" : path;
  const auto index = path / "model.safetensors.index.json";
  if (single == path || std::filesystem::exists(single)) {
    open_single(single);
  } else {
    TS_CHECK(std::filesystem::exists(index), "{}: found neither {} nor {}", path.string(),
             single.filename().string(), index.filename().string());
    open_indexed(index);
  }
}

void SafetensorsFolder::open_single(const std::filesystem::path& file) {
  names_ = readers_.emplace_back(file).names();
  for (const std::string& name : names_) reader_of_[name] = 0;
}

void SafetensorsFolder::open_indexed(const std::filesystem::path& index) {
  const auto shard_of = read_weight_map(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    const auto& reader = readers_.emplace_back(index.parent_path() / shard);
    for (const std::string& name : reader.names()) {
      const auto listed = shard_of.find(name);
      if (listed == shard_of.end() || listed->second != shard) continue;
      names_.push_back(name);
      reader_of_[name] = readers_.size() - 1;
    }
  }
  for (const auto& [name, shard] : shard_of) {
    TS_CHECK(contains(name), "{}: tensor \"{}\" should be in {}, but is not there", index.string(), name,
             shard);
  }
}

const SafetensorsReader& SafetensorsFolder::reader_of(std::string_view name) const {
  const auto found = reader_of_.find(name);
  TS_CHECK(found != reader_of_.end(), "{}: expected a tensor \"{}\", found {} tensors, none of this name",
           path_.string(), name, names_.size());
  return readers_[found->second];
}

}  // namespace tessera
