#include "tessera/base/shared_library.h"

#include <dlfcn.h>

#include <utility>

#include "tessera/base/error.h"

namespace tessera {

SharedLibrary::SharedLibrary(std::string name, const std::filesystem::path& folder) : name_(std::move(name)) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  handle_ = ::dlopen(name_.c_str(), kFlags);
  if (found()) return;
  why_not_found_ = ::dlerror();
  if (folder.empty()) return;
  handle_ = ::dlopen((folder / name_).c_str(), kFlags);
  if (!found()) why_not_found_ += fmt::format("; {}", ::dlerror());
}

void* SharedLibrary::address(const char* function_name) const {
  TS_ASSERT(found());
  void* const address = ::dlsym(handle_, function_name);
  if (address == nullptr) {
    const char* const error = ::dlerror();  // none if the library itself gives a null address
    fail("{} has no function {}: {}", name_, function_name, error ? error : "its address is null");
  }
  return address;
}

}  // namespace tessera
