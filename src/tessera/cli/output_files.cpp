#include "tessera/cli/output_files.h"

#include "tessera/base/error.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

std::vector<NamedFile> named_files(const std::string& name, const std::vector<std::string>& paths) {
  std::vector<NamedFile> files;
  for (const std::string& path : paths) files.push_back({name, path});
  return files;
}

std::vector<NamedFile> tokenizer_inputs(const std::filesystem::path& tokenizer) {
  std::vector<NamedFile> files;
  for (const TokenizerFile& file : tokenizer_files(tokenizer)) files.push_back({"--tokenizer", file.path});
  return files;
}

void check_outputs(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  std::vector<NamedFile> taken = inputs;
  for (const NamedFile& output : outputs) {
    for (const NamedFile& other : taken) {
      TS_CHECK(!same_place(output.path, other.path), "{}: would write {} over {} {}: expected another file",
               output.name, output.path.string(), other.name, other.path.string());
    }
    taken.push_back(output);
  }
}

bool same_place(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code error;
  if (std::filesystem::equivalent(one, other, error)) return true;
  const auto place = [](const std::filesystem::path& path) {
    std::error_code unreadable;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unreadable), unreadable);
  };
  const std::filesystem::path first = place(one);
  return !first.empty() && first == place(other);
}

void check_prefix(std::string_view name, const std::string& prefix) {
  TS_CHECK(!prefix.ends_with('/'), "{}: found {}, expected a prefix of files, such as {}corpus", name, prefix,
           prefix);
}

}  // namespace tessera
