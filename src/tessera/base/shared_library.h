// SharedLibrary: a library that is looked for when the program runs, and its functions by name.
//
// For what not every machine has: a program that is neither linked with it nor refuses to start without it.
// Made by whoever declares the library's functions: backend/cuda of cuBLAS and cuDNN, comm/nccl of
// NCCL.
#pragma once

#include <filesystem>
#include <string>
#include <type_traits>

namespace tessera {

class SharedLibrary {
 public:
  // Looked for where the dynamic linker looks, then in `folder` unless that is empty. Once found it is never
  // unloaded: such libraries leave threads and exit handlers behind.
  explicit SharedLibrary(std::string name, const std::filesystem::path& folder = {});

  bool found() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }  // of dlopen; null: not found
  const std::string& name() const { return name_; }
  const std::string& why_not_found() const { return why_not_found_; }  // the linker's words, of each place

  // Sets `function`, whose type the caller vouches for. Throws Error if the library has none of that name.
  template <class Function>
  requires std::is_function_v<Function>
  void find(const char* function_name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(function_name));
  }

 private:
  void* address(const char* function_name) const;

  std::string name_, why_not_found_;
  void* handle_ = nullptr;
};

}  // namespace tessera
