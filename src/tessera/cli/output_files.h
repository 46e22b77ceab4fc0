// What a command refuses to write to, before it reads or writes anything: a file that it reads, which would
// be replaced without a word, and a name that hides what is written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// As a command's help names it: {"--out", "ids"}, {"FILE", "text.txt"}.
struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

std::vector<NamedFile> named_files(const std::string& name, const std::vector<std::string>& paths);
// Of the tokenizer that --tokenizer names.
std::vector<NamedFile> tokenizer_inputs(const std::filesystem::path& tokenizer);

// Throws Error where an output is also an input, or another output.
void check_outputs(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

// Whether both name the same file or folder, be it there already or not.
bool same_place(const std::filesystem::path& one, const std::filesystem::path& other);

// A prefix of files PREFIX.bin and PREFIX.idx ends in a name: "maps/" would make maps/.bin.
void check_prefix(std::string_view name, const std::string& prefix);

}  // namespace tessera
