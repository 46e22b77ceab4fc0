#include "tessera/base/shared_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

TEST(SharedLibrary, FindsALibraryAndItsFunctions) {
  const SharedLibrary math("libm.so.6");
  ASSERT_TRUE(math.found()) << math.why_not_found();
  double (*scale)(double, int) = nullptr;
  float (*multiply_add)(float, float, float) = nullptr;
  math.find("ldexp", scale);
  math.find("fmaf", multiply_add);
  EXPECT_EQ(scale(3.0, 4), 48.0);
  EXPECT_EQ(multiply_add(2, 3, 4), 10.0f);
}

TEST(SharedLibrary, ThenLooksInAFolder) {
  double (*scale)(double, int) = nullptr;
  SharedLibrary("libm.so.6").find("ldexp", scale);
  Dl_info place{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(scale), &place), 0);

  TemporaryFolder folder;
  const std::string name = "libtessera_is_not_there.so.1";
  std::filesystem::create_symlink(place.dli_fname, folder.path() / name);
  EXPECT_FALSE(SharedLibrary(name).found());
  const SharedLibrary library(name, folder.path());
  ASSERT_TRUE(library.found()) << library.why_not_found();
  scale = nullptr;
  library.find("ldexp", scale);
  EXPECT_EQ(scale(3.0, 4), 48.0);
}

TEST(SharedLibrary, SaysWhatTheLinkerSaidOfEachPlace) {
  TemporaryFolder folder;
  const std::string name = "libtessera_is_not_there.so.1";
  const std::string in_folder = folder.write(name, "no library").string();
  const SharedLibrary library(name, folder.path());
  EXPECT_FALSE(library.found());
  EXPECT_NE(library.why_not_found().find(name + ": cannot open shared object file"), std::string::npos);
  EXPECT_NE(library.why_not_found().find("; " + in_folder + ": file too short"), std::string::npos)
      << library.why_not_found();
}

TEST(SharedLibrary, NamesAFunctionThatIsMissing) {
  const SharedLibrary math("libm.so.6");
  void (*function)() = nullptr;
  expect_error([&] { math.find("no_such_function", function); },
               {"libm.so.6 has no function no_such_function", "undefined symbol"});
}

}  // namespace
}  // namespace tessera
