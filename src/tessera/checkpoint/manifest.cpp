#include "tessera/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kFormatVersion = 1;

const Json& require_field(const Json& object, const char* key, Json::value_t type, const std::string& where) {
  const auto found = object.find(key);
  TS_CHECK(found != object.end(), "{}: no \"{}\"", where, key);
  TS_CHECK(found->type() == type, "{}: \"{}\" is {}, expected type {}", where, key, found->dump(),
           Json(type).type_name());
  return *found;
}

std::int64_t require_count(const Json& object, const char* key, const std::string& where) {
  const Json& count = require_field(object, key, Json::value_t::number_unsigned, where);
  TS_CHECK(std::in_range<std::int64_t>(count.get<std::uint64_t>()),
           "{}: \"{}\" is {}, expected at most 2^63-1", where, key, count.dump());
  return count.get<std::int64_t>();
}

Manifest parse_manifest(const Json& json, const std::string& where) {
  TS_CHECK(json.is_object(), "{}: found a JSON {}, expected an object", where, json.type_name());
  const std::int64_t version = require_count(json, "format_version", where);
  TS_CHECK(version == kFormatVersion,
           "{}: found format version {}, expected {}; another version of tessera wrote it", where, version,
           kFormatVersion);
  Manifest manifest;
  manifest.info.step = require_count(json, "step", where);
  manifest.info.consumed_samples = require_count(json, "consumed_samples", where);
  for (const auto& [key, value] : require_field(json, "properties", Json::value_t::object, where).items()) {
    TS_CHECK(value.is_string(), "{}: property \"{}\" is {}, expected a string", where, key, value.dump());
    manifest.info.properties[key] = value.get<std::string>();
  }
  for (const auto& [name, digest] : require_field(json, "files", Json::value_t::object, where).items()) {
    const std::string at = fmt::format("{}: file \"{}\"", where, name);
    TS_CHECK(is_checkpoint_file_name(name), "{}: expected the name of a file beside the manifest", at);
    TS_CHECK(digest.is_object(), "{}: found {}, expected its bytes and hash", at, digest.dump());
    manifest.files[name] = {
        require_count(digest, "bytes", at),
        require_field(digest, "xxh3_128", Json::value_t::string, at).get<std::string>(),
    };
  }
  return manifest;
}

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format_version"] = kFormatVersion;
  json["step"] = manifest.info.step;
  json["consumed_samples"] = manifest.info.consumed_samples;
  json["files"] = Json::object();
  for (const auto& [name, digest] : manifest.files) {
    json["files"][name] = {{"bytes", digest.num_bytes}, {"xxh3_128", digest.xxh3_128}};
  }
  json["properties"] = manifest.info.properties;
  try {
    return json.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    fail("{}: properties must be UTF-8: {}", kManifestName, error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  Json json;
  try {
    json = parse_json(text);
  } catch (const Json::exception& error) {
    fail("{}: not JSON: {}", path.string(), error.what());
  }
  return parse_manifest(json, path.string());
}

bool is_checkpoint_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestName &&
         name.find('/') == std::string::npos;
}

}  // namespace tessera
