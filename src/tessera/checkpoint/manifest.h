// Manifest: the page of a checkpoint that says which step it is and which bytes belong to it.
//
// Stored as manifest.json, the last file written into a checkpoint's folder. Made and read by
// checkpoint.h alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tessera/checkpoint/file_digest.h"

namespace tessera {

// Where a run stands; what a resume needs beside the tensors.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;              // the data cursor
  std::map<std::string, std::string> properties;  // free text by name, such as the run's config
};

struct Manifest {
  CheckpointInfo info;
  std::map<std::string, FileDigest> files;  // by name inside the folder
};

inline constexpr const char* kManifestName = "manifest.json";

std::string format_manifest(const Manifest& manifest);

// Throws an Error naming the file when it is missing, garbled or of a version we do not know.
Manifest read_manifest(const std::filesystem::path& path);

// A name that stays inside its folder and is not the manifest's own.
bool is_checkpoint_file_name(const std::string& name);

}  // namespace tessera
